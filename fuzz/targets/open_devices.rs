//! Any bytes as the region of device contexts: `open` gives an error value, or working contexts.

#![no_main]
#![allow(dead_code)] // the file is shared with the tests of `nv-device`, which use more

use libfuzzer_sys::fuzz_target;
use relume_fuzz::{bytes_mut, edit, overwrite, seeds};

mod narrow {
    type M = nvmem::InOrder16;
    include!("../../crates/device/tests/suite/hostile/image.rs");
}
mod wide {
    type M = nvmem::InOrder32;
    include!("../../crates/device/tests/suite/hostile/image.rs");
}

fuzz_target!(
    init: {
        let whole = |mode: u8, image: &mut Vec<core::mem::MaybeUninit<u64>>| {
            [&[mode], &*bytes_mut(image)].concat()
        };
        seeds(&[
            ("edit-16", vec![0]),
            ("edit-32", vec![1]),
            ("whole-16", whole(2, &mut narrow::image())),
            ("whole-32", whole(3, &mut wide::image())),
        ]);
    },
    |data: &[u8]| {
        let Some((mode, rest)) = data.split_first() else {
            return;
        };
        let change = |words: &mut Vec<_>| match mode & 2 {
            0 => edit(bytes_mut(words), rest),
            _ => overwrite(bytes_mut(words), rest),
        };
        if mode & 1 == 0 {
            let mut words = narrow::image();
            change(&mut words);
            narrow::attack(&mut words);
        } else {
            let mut words = wide::image();
            change(&mut words);
            wide::attack(&mut words);
        }
    }
);
