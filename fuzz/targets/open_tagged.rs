//! Any bytes as tagged words and cells, on units of 16 and 32 bits: `recover` gives an error value,
//! or words that work.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvmem::tagged::{Cells, Stamp, Widths, Words};
use nvmem::{InOrder16, InOrder32, Model, Region};
use relume_fuzz::{blank, bytes, bytes_mut, overwrite, seeds};

const WORDS: Widths = Widths {
    sequence: 4,
    owner: 2,
    state: 4,
};
const CELLS: Widths = Widths { state: 1, ..WORDS };
const COUNT: usize = 4;

type Value = [Option<core::num::NonZeroU8>; 3];

/// The last committed numbers of three owners.
fn last(of: &[u8]) -> impl Fn(u32) -> Option<u32> {
    let of = [0, 1, 2].map(|i| u32::from(of.get(i).copied().unwrap_or(0) % 16));
    move |owner| of.get(owner as usize).copied()
}

fn words<M: Model>(last: impl Fn(u32) -> Option<u32> + Copy, image: &[u8]) {
    let mut memory = blank(Words::<M>::bytes(COUNT));
    overwrite(bytes_mut(&mut memory), image);
    let before = bytes(&memory).to_vec();
    let Ok(mut w) = Words::<M>::recover(Region::new(&mut memory), COUNT, WORDS, last) else {
        assert_eq!(bytes(&memory), before, "a refused image is untouched");
        return;
    };
    let states: Vec<_> = (0..COUNT)
        .map(|i| w.get(i, |_| None).expect("settled"))
        .collect();
    let stamp = Stamp {
        owner: 0,
        sequence: WORDS.next(last(0).expect("an owner")),
    };
    for (i, s) in states.iter().enumerate() {
        w.set(i, stamp, s ^ 1, last).expect("nobody is in doubt");
    }
    w.revert(stamp).expect("a stamp");
    for (i, s) in states.iter().enumerate() {
        assert_eq!(w.get(i, last), Ok(*s));
        w.set(i, stamp, s ^ 1, last).expect("nobody is in doubt");
    }
    w.sweep(stamp, last(0).expect("an owner")).expect("a stamp");
    let committed = |o| {
        if o == 0 {
            Some(stamp.sequence)
        } else {
            last(o)
        }
    };
    let w = Words::<M>::recover(w.close(), COUNT, WORDS, committed).expect("opens again");
    for (i, s) in states.iter().enumerate() {
        assert_eq!(w.get(i, |_| None), Ok(s ^ 1), "a commit is lost");
    }
}

fn cells<M: Model>(last: impl Fn(u32) -> Option<u32> + Copy, image: &[u8]) {
    let mut memory = blank(Cells::<M, Value>::bytes(COUNT));
    overwrite(bytes_mut(&mut memory), image);
    let Ok(mut c) = Cells::<M, Value>::recover(Region::new(&mut memory), COUNT, CELLS, last) else {
        return;
    };
    let old: Vec<_> = (0..COUNT)
        .map(|i| c.get(i, |_| None).expect("settled"))
        .collect();
    let stamp = Stamp {
        owner: 1,
        sequence: CELLS.next(last(1).expect("an owner")),
    };
    let new = [core::num::NonZeroU8::new(7); 3];
    for i in 0..COUNT {
        c.set(i, stamp, new, last).expect("nobody is in doubt");
        assert_eq!(
            (c.get(i, last), c.staged(i, stamp)),
            (Ok(old[i]), Ok(Some(new)))
        );
    }
    let c = Cells::<M, Value>::recover(c.close(), COUNT, CELLS, last).expect("opens again");
    assert!((0..COUNT).all(|i| c.get(i, |_| None) == Ok(old[i])));
}

fuzz_target!(
    init: {
        seeds(&[("words-16", vec![0; 12]), ("words-32", vec![1; 20]), ("cells-16", vec![2; 44]), ("cells-32", vec![3; 52])]);
    },
    |data: &[u8]| {
        let Some((head, image)) = data.split_at_checked(4) else {
            return;
        };
        let last = last(&head[1..]);
        match head[0] % 4 {
            0 => words::<InOrder16>(&last, image),
            1 => words::<InOrder32>(&last, image),
            2 => cells::<InOrder16>(&last, image),
            _ => cells::<InOrder32>(&last, image),
        }
    }
);
