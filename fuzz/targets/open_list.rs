//! Any bytes as a node pool: `open` gives an error value, or working lists.

#![no_main]
#![allow(dead_code)] // the file is shared with the tests of `nvlist`, which use more

use libfuzzer_sys::fuzz_target;
use relume_fuzz::{bytes_mut, edit, overwrite, seeds};

mod narrow {
    type M = nvmem::InOrder16;
    include!("../../crates/nvlist/tests/suite/hostile/image.rs");
}
mod wide {
    type M = nvmem::InOrder32;
    include!("../../crates/nvlist/tests/suite/hostile/image.rs");
}

const WORDS: usize = 48;

fuzz_target!(
    init: {
        let whole = |mode: u8, image: &mut Vec<core::mem::MaybeUninit<u64>>| {
            [&[mode], &*bytes_mut(image)].concat()
        };
        seeds(&[
            ("edit-16", vec![0]),
            ("edit-32", vec![1]),
            ("whole-16", whole(2, &mut narrow::image(WORDS, 0))),
            ("whole-32", whole(3, &mut wide::image(WORDS, 1))),
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
        let doubt = mode >> 2 & 3;
        if mode & 1 == 0 {
            let mut words = narrow::image(WORDS, doubt);
            change(&mut words);
            narrow::attack(&mut words);
        } else {
            let mut words = wide::image(WORDS, doubt);
            change(&mut words);
            wide::attack(&mut words);
        }
    }
);
