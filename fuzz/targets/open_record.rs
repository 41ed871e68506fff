//! Any bytes as a record, on each kind of medium: `open` gives an error value, or a working record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::record::{Record, RecordError};
use nvmem::{Maybe, Medium, Persist};
use relume_fuzz::{edit, overwrite, seeds};
use std::fmt::Debug;

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Settings {
    rate: u16,
    on: bool,
    name: [Maybe<char>; 2],
}

const FIRST: Settings = Settings {
    rate: 1,
    on: false,
    name: [Maybe::None; 2],
};
const SECOND: Settings = Settings {
    rate: 2,
    on: true,
    name: [Maybe::Some('r'); 2],
};

type Nor = RamNor<3, 256, 8>;

fn open<D: Medium<Error: Debug>>(medium: D) -> Result<Record<Settings, D>, RecordError<D::Error>> {
    let end = medium.capacity();
    Record::open(medium, 0..end, FIRST)
}

/// A medium with a record that was written a few times.
fn sound<D: Medium<Error: Debug>>(blank: D) -> D {
    let mut r = open(blank).expect("a blank medium is formatted");
    for rate in 3..6 {
        r.set(Settings { rate, ..SECOND }).expect("a sound medium");
    }
    r.into_medium()
}

fn run<D: Medium<Error: Debug> + Clone>(
    mut medium: D,
    image: fn(&mut D) -> &mut [u8],
    change: impl FnOnce(&mut [u8]),
) {
    change(image(&mut medium));
    let end = medium.capacity();
    let shown = Record::<Settings, D>::read(medium.clone(), 0..end);
    let mut record = match open(medium) {
        Ok(r) => r,
        Err(RecordError::Medium(e)) => panic!("the medium was misused: {e:?}"),
        Err(_) => return,
    };
    let value = *record.get();
    assert_eq!(
        shown.expect("what opens can be read").unwrap_or(FIRST),
        value
    );
    let again = open(record.into_medium()).expect("what was opened opens again");
    assert_eq!(*again.get(), value, "opening changed the value");
    record = again;
    for v in [SECOND, FIRST, SECOND] {
        record.set(v).expect("a sound medium");
    }
    let record = open(record.into_medium()).expect("opens after writes");
    assert_eq!(*record.get(), SECOND, "a write was lost");
}

fuzz_target!(
    init: {
        let with = |mode: u8, image: &[u8]| [&[mode], image].concat();
        seeds(&[
            ("edit-fram", vec![0]),
            ("edit-mram", vec![1]),
            ("edit-nor", vec![2]),
            ("whole-fram", with(4, sound(RamFram::<256>::filled(0)).bytes())),
            ("whole-mram", with(5, sound(RamMram::<256>::filled(0)).bytes())),
            ("whole-nor", with(6, sound(Nor::new()).bytes())),
        ]);
    },
    |data: &[u8]| {
        let Some((mode, rest)) = data.split_first() else {
            return;
        };
        let change = |image: &mut [u8]| if mode & 4 == 0 { edit(image, rest) } else { overwrite(image, rest) };
        match mode % 4 {
            0 => run(sound(RamFram::<256>::filled(0)), |d| d.bytes_mut(), change),
            1 => run(sound(RamMram::<256>::filled(0)), |d| d.bytes_mut(), change),
            _ => run(sound(Nor::new()), |d| d.bytes_mut(), change),
        }
    }
);
