//! Any bytes as a mirror's log, on each kind of medium: `open` gives an error value, or a mirror
//! and a region with a pool that work.

#![no_main]

use core::mem::MaybeUninit;
use libfuzzer_sys::fuzz_target;
use nv_mirror::{Config, Mirror, MirrorError};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{InOrder32, Medium, Ram};
use pmem_tx::Pool;
use relume_fuzz::{edit, overwrite, seeds};
use std::fmt::Debug;

const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};
type Fram = RamFram<3072>;
type Mram = RamMram<3072>;
type Nor = RamNor<3, 1024, 4>;

/// Opens, counts and saves. `None` if mirror or pool refuse what they found.
fn count<D: Medium<Error: Debug>>(nv: &mut D) -> Option<u32> {
    let end = nv.capacity();
    let mut memory = [MaybeUninit::new(0); 2 * 52];
    let (mut mirror, region) = match Mirror::open::<InOrder32>(nv, 0..end, &THREE, &mut memory) {
        Ok(both) => both,
        Err(MirrorError::Medium(e)) => panic!("the medium was misused: {e:?}"),
        Err(_) => return None,
    };
    let small = pmem_tx::Config::SMALL;
    let mut pool = Pool::<[u32; 8], Ram>::open_with(region, &small, |_| Ok([0; 8])).ok()?;
    let n = pool.tx(|tx, root| {
        let v = root.get_mut(tx)?;
        v[0] = v[0].wrapping_add(1);
        Ok(v[0])
    });
    mirror.durable(&mut pool).expect("a sound medium");
    n.ok()
}

/// A medium with a log of some boots.
fn sound<D: Medium<Error: Debug>>(mut nv: D) -> D {
    for n in 1..5 {
        assert_eq!(count(&mut nv), Some(n));
    }
    nv
}

fn run<D: Medium<Error: Debug>>(
    mut nv: D,
    image: fn(&mut D) -> &mut [u8],
    change: impl FnOnce(&mut [u8]),
    then: Then,
) {
    change(image(&mut nv));
    let mut last = None;
    for _ in 0..4 {
        let next = count(&mut nv);
        match (then, last) {
            (Then::Next, Some(n)) => assert_eq!(next, Some(n + 1), "a save was lost"),
            (Then::Later, Some(n)) => assert!(next > Some(n), "a save was lost"),
            _ => {}
        }
        last = next;
    }
}

/// What an open finds after a save.
#[derive(Clone, Copy)]
enum Then {
    /// What was saved.
    Next,
    /// That, or a later state that was saved before the edits. Without erase, a boot appends to the
    /// segment that it finds. If the edits damage a record, and the program saves the very same
    /// record once more, its check is the same, and the records after it count again. No cut does
    /// this: what it leaves unfinished is the last record. See docs/FAILURE-MODEL.md.
    Later,
    /// Anything: an input that is the whole image may hold records that nobody saved.
    Anything,
}

fuzz_target!(
    init: {
        let with = |mode: u8, image: &[u8]| [&[mode], image].concat();
        seeds(&[
            ("edit-fram", vec![0]),
            ("edit-mram", vec![1]),
            ("edit-nor", vec![2]),
            ("whole-fram", with(4, sound(Fram::filled(0)).bytes())),
            ("whole-mram", with(5, sound(Mram::filled(0)).bytes())),
            ("whole-nor", with(6, sound(Nor::new()).bytes())),
        ]);
    },
    |data: &[u8]| {
        let Some((mode, rest)) = data.split_first() else {
            return;
        };
        let whole = mode & 4 != 0;
        let change = |image: &mut [u8]| if whole { overwrite(image, rest) } else { edit(image, rest) };
        let then = |then| if whole { Then::Anything } else { then };
        match mode % 4 {
            0 => run(sound(Fram::filled(0)), |d| d.bytes_mut(), change, then(Then::Later)),
            1 => run(sound(Mram::filled(0)), |d| d.bytes_mut(), change, then(Then::Later)),
            _ => run(sound(Nor::new()), |d| d.bytes_mut(), change, then(Then::Next)),
        }
    }
);
