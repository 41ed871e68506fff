//! Any bytes as a mirror's log, on each kind of medium: `open` gives an error value, or a mirror
//! and a region with a pool that work.

#![no_main]

use core::mem::MaybeUninit;
use libfuzzer_sys::fuzz_target;
use nv_mirror::{Config, Mirror, MirrorError};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{InOrder32, Medium};
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
    let mut pool = Pool::<[u32; 8]>::open_with(region, &small, |_| Ok([0; 8])).ok()?;
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
) {
    change(image(&mut nv));
    // Counts are not compared: after edits that no power cut makes, a later open may find another
    // state than this one has saved.
    for _ in 0..4 {
        count(&mut nv);
    }
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
        let change = |image: &mut [u8]| if mode & 4 == 0 { edit(image, rest) } else { overwrite(image, rest) };
        match mode % 4 {
            0 => run(sound(Fram::filled(0)), |d| d.bytes_mut(), change),
            1 => run(sound(Mram::filled(0)), |d| d.bytes_mut(), change),
            _ => run(sound(Nor::new()), |d| d.bytes_mut(), change),
        }
    }
);
