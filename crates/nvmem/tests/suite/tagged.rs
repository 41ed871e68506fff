//! Tagged words without a cut: what each operation refuses, hostile bytes, and the format.

use core::mem::MaybeUninit;
use nvmem::tagged::{Cells, Fixed, FixedWidths, Stamp, TagError, Widths, Words};
use nvmem::{InOrder16, InOrder32, Model, Region, Unit};

const WIDTHS: Widths = Widths {
    sequence: 4,
    owner: 2,
    state: 4,
};
const CELL: Widths = Widths { state: 1, ..WIDTHS };

/// Nobody has committed yet; there are three owners.
fn none(owner: u32) -> Option<u32> {
    (owner < 3).then_some(0)
}
fn all(n: u32) -> impl Fn(u32) -> Option<u32> {
    move |owner| none(owner).map(|_| n)
}
fn stamp(owner: u32, sequence: u32) -> Stamp {
    Stamp { owner, sequence }
}

#[test]
fn what_is_refused() {
    let mut memory = [MaybeUninit::new(0u64); 2];
    let region = Region::<InOrder32>::new(&mut memory);
    assert_eq!(region.len(), Words::<InOrder32>::bytes(4));
    let failed = Words::format(region, 5, WIDTHS).err().unwrap();
    assert_eq!(failed.error, TagError::TooSmall { needed: 24 });
    let wide = Widths {
        owner: 15,
        ..WIDTHS
    };
    let wide = Widths { state: 7, ..wide };
    let failed = Words::format(failed.region, 4, wide).err().unwrap();
    assert_eq!(failed.error, TagError::Widths);
    let failed = Words::format(failed.region, usize::MAX, WIDTHS)
        .err()
        .unwrap();
    assert!(matches!(failed.error, TagError::TooSmall { .. }));
    let mut w = Words::format(failed.region, 4, WIDTHS).unwrap();

    let index = Err(TagError::Index { index: 4 });
    assert_eq!(w.set(4, stamp(0, 1), 1, none), index);
    assert_eq!(w.publish(4, 1, none), index);
    assert_eq!(w.get(4, none), Err(TagError::Index { index: 4 }));
    assert_eq!(w.set(0, stamp(0, 1), 16, none), Err(TagError::State));
    assert_eq!(w.publish(0, 16, none), Err(TagError::State));
    for bad in [
        stamp(4, 1),
        stamp(0, 0),
        stamp(0, 16),
        stamp(u32::MAX, u32::MAX),
    ] {
        assert_eq!(w.set(0, bad, 1, none), Err(TagError::Stamp));
        assert_eq!(w.sweep(bad, 0), Err(TagError::Stamp));
        assert_eq!(w.revert(bad), Err(TagError::Stamp));
    }
    assert_eq!(
        (0..4).map(|i| w.get(i, none)).collect::<Vec<_>>(),
        [Ok(0); 4]
    );

    // In doubt: neither another owner nor an interrupt may write.
    w.set(0, stamp(0, 1), 5, none).unwrap();
    assert_eq!(w.set(0, stamp(1, 1), 6, none), Err(TagError::Busy));
    assert_eq!(w.publish(0, 6, none), Err(TagError::Busy));
    assert_eq!((w.get(0, none), w.get(0, all(1))), (Ok(0), Ok(5)));
    assert_eq!(w.staged(0, stamp(0, 1)), Ok(Some(5)));
    assert_eq!(w.staged(0, stamp(1, 1)), Ok(None));
    // A second time in one transaction, and after the commit.
    w.set(0, stamp(0, 1), 7, none).unwrap();
    assert_eq!((w.get(0, none), w.get(0, all(1))), (Ok(0), Ok(7)));
    w.set(0, stamp(1, 2), 8, all(1)).unwrap();
    assert_eq!((w.get(0, all(1)), w.get(0, all(2))), (Ok(7), Ok(8)));
    w.revert(stamp(1, 2)).unwrap();
    assert_eq!((w.get(0, all(1)), w.get(0, all(2))), (Ok(7), Ok(7)));
    w.publish(0, 9, all(1)).unwrap();
    assert_eq!(w.get(0, all(1)), Ok(9));
    assert_eq!((w.count(), w.close().len()), (4, 16));
}

/// The same widths as a constant.
enum Constant {}
impl FixedWidths for Constant {
    const WIDTHS: Widths = WIDTHS;
}
enum ConstantCell {}
impl FixedWidths for ConstantCell {
    const WIDTHS: Widths = CELL;
}

/// `put` stores what `set` stores, and constant widths store what others do.
#[test]
fn who_knows_the_states_stores_the_same() {
    fn words<M: Model>(put: bool) -> Vec<u8> {
        image::<M>(|region| {
            if put {
                let mut w = Words::format(region, 3, Fixed::<Constant>::NEW).unwrap();
                w.put_settled(0, 5).unwrap();
                w.put(1, stamp(1, 1), 0, 3).unwrap();
                w.put(0, stamp(2, 1), 5, 15).unwrap();
                assert_eq!(w.get(0, none), Ok(5));
                assert_eq!(w.get(0, all(1)), Ok(15));
            } else {
                let mut w = Words::format(region, 3, WIDTHS).unwrap();
                w.publish(0, 5, none).unwrap();
                w.set(1, stamp(1, 1), 3, none).unwrap();
                w.set(0, stamp(2, 1), 15, none).unwrap();
            }
        })
    }
    assert_eq!(words::<InOrder32>(true), words::<InOrder32>(false));
    fn cells<M: Model>(put: bool) -> Vec<u8> {
        image::<M>(|region| {
            if put {
                let mut c = Cells::format(region, 2, Fixed::<ConstantCell>::NEW, 7u16).unwrap();
                c.put_settled(0, 5).unwrap();
                c.put(0, stamp(1, 1), 3).unwrap();
                c.put(0, stamp(1, 1), 4).unwrap();
                c.put(1, stamp(2, 1), 9).unwrap();
                assert_eq!(c.get(0, none), Ok(5));
                assert_eq!(c.get(0, all(1)), Ok(4));
            } else {
                let mut c = Cells::format(region, 2, CELL, 7u16).unwrap();
                c.publish(0, 5, none).unwrap();
                c.set(0, stamp(1, 1), 3, none).unwrap();
                c.set(0, stamp(1, 1), 4, none).unwrap();
                c.set(1, stamp(2, 1), 9, none).unwrap();
            }
        })
    }
    assert_eq!(cells::<InOrder32>(true), cells::<InOrder32>(false));
    assert_eq!(cells::<InOrder16>(true), cells::<InOrder16>(false));
}

/// What a boot takes for an empty slot with one load.
#[test]
fn only_a_settled_zero_is_zero() {
    let mut memory = [MaybeUninit::new(0u64); 2];
    let mut w = Words::format(Region::<InOrder32>::new(&mut memory), 4, WIDTHS).unwrap();
    w.put_settled(1, 3).unwrap();
    // In doubt, and the state before is 0; then committed, and the state after is 0.
    w.set(2, stamp(0, 1), 5, none).unwrap();
    w.put_settled(3, 6).unwrap();
    w.set(3, stamp(0, 1), 0, none).unwrap();
    let zeros = [0, 1, 2, 3, 4, usize::MAX].map(|i| w.is_zero(i));
    assert_eq!(zeros, [true, false, false, false, false, false]);
    let w = Words::recover(w.close(), 4, WIDTHS, all(1)).ok().unwrap();
    let zeros = [0, 1, 2, 3].map(|i| (w.is_zero(i), w.settled(i)));
    let states = [(true, 0), (false, 3), (false, 5), (true, 0)];
    assert_eq!(zeros, states.map(|(zero, state)| (zero, Some(state))));
}

#[test]
fn what_put_and_settle_refuse() {
    let mut memory = [MaybeUninit::new(0u64); 4];
    let mut w = Words::format(Region::<InOrder32>::new(&mut memory), 4, WIDTHS).unwrap();
    let index = Err(TagError::Index { index: 4 });
    assert_eq!(w.put(4, stamp(0, 1), 0, 1), index);
    assert_eq!(w.put_settled(4, 1), index);
    assert_eq!(w.put(0, stamp(0, 1), 0, 16), Err(TagError::State));
    assert_eq!(w.put(0, stamp(0, 1), 16, 0), Err(TagError::State));
    assert_eq!(w.put_settled(0, 16), Err(TagError::State));
    for bad in [stamp(4, 1), stamp(0, 0), stamp(0, 16)] {
        assert_eq!(w.put(0, bad, 0, 1), Err(TagError::Stamp));
    }
    // Settles words of one owner, in a range.
    for i in 0..4 {
        w.put(i, stamp(i as u32 % 2, 1), 0, 1).unwrap();
    }
    let stamped = |w: &Words<'_, InOrder32>| {
        let of = |i: &usize| w.staged(*i, stamp(*i as u32 % 2, 1)).unwrap().is_some();
        (0..4).filter(of).collect::<Vec<_>>()
    };
    w.settle(1, 2, 0).unwrap();
    assert_eq!(stamped(&w), [0, 1, 3]);
    w.settle(0, usize::MAX, 1).unwrap();
    assert_eq!(stamped(&w), [0]);
    assert_eq!(w.get(3, none), Ok(1));
    w.settle(4, 1, 1).unwrap();

    let mut c = Cells::format(w.close(), 1, CELL, 7u16).unwrap();
    assert_eq!(c.put(0, stamp(0, 16), 1), Err(TagError::Stamp));
    let index = Err(TagError::Index { index: 1 });
    assert_eq!(c.put(1, stamp(0, 1), 1), index);
    assert_eq!(c.put_settled(1, 1), index);
    c.put(0, stamp(2, 1), 8).unwrap();
    c.settle(0, 1, 2).unwrap();
    assert_eq!(c.get(0, none), Ok(8));
}

/// The cost of a sweep: the words that are due, and nothing if the number was swept.
#[test]
fn a_sweep_settles_what_is_due() {
    let mut memory = [MaybeUninit::new(0u64); 4];
    let region = Region::<InOrder32>::new(&mut memory);
    // 7 numbers are half a round, so one word is due for each.
    let mut w = Words::format(region, 7, WIDTHS).unwrap();
    for i in 0..7 {
        w.set(i, stamp(0, 1), 1, none).unwrap();
    }
    let stamped = |w: &Words<'_, InOrder32>| {
        (0..7)
            .filter(|i| w.staged(*i, stamp(0, 1)).unwrap().is_some())
            .count()
    };
    // The owner's own transaction keeps its stamps.
    w.sweep(stamp(0, 1), 0).unwrap();
    assert_eq!(stamped(&w), 7);
    // Another owner's sweep does not touch them.
    w.sweep(stamp(1, 9), 1).unwrap();
    assert_eq!(stamped(&w), 7);
    w.sweep(stamp(0, 2), 1).unwrap();
    assert_eq!(stamped(&w), 6);
    w.sweep(stamp(0, 2), 2).unwrap();
    assert_eq!(stamped(&w), 6);
    w.sweep(stamp(0, 6), 2).unwrap();
    assert_eq!(stamped(&w), 2);
    // The largest number and the first are neighbours.
    w.sweep(stamp(0, 1), 14).unwrap();
    assert_eq!(stamped(&w), 2);
    w.sweep(stamp(0, 8), 6).unwrap();
    assert_eq!(stamped(&w), 0);
    assert_eq!(
        (0..7).map(|i| w.get(i, all(8))).collect::<Vec<_>>(),
        [Ok(1); 7]
    );
}

/// Each word that the library never writes is refused, and nothing is stored.
fn hostile<M: Model>() {
    for word in 0..=u16::MAX {
        let mut memory = [MaybeUninit::new(0u64); 1];
        let region = Region::<M>::new(&mut memory);
        // SAFETY: inside, aligned, and nothing is lent.
        unsafe { region.store(M::Unit::BYTES, word.into()) };
        let (number, owner) = (u32::from(word) >> 10, u32::from(word) >> 8 & 3);
        let (before, after) = (word >> 4 & 15, word & 15);
        let known = match number {
            0 => owner == 0 && before == after,
            1..16 => owner < 3,
            _ => false,
        };
        let words = match Words::recover(region, 2, WIDTHS, all(7)) {
            Ok(words) => {
                assert!(known, "{word:x}");
                let state = if number == 8 { before } else { after };
                assert_eq!(words.get(1, |_| None), Ok(state.into()), "settled");
                continue;
            }
            Err(failed) => failed,
        };
        assert!(!known && words.error == TagError::Damaged { index: 1 });
        // SAFETY: as above.
        assert_eq!(unsafe { words.region.load(M::Unit::BYTES) }, word.into());
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of words in the same code")]
fn hostile_words_give_errors() {
    hostile::<InOrder16>();
    hostile::<InOrder32>();
}

/// A version that counts and is no value is refused; one that does not count may hold any bytes.
#[test]
fn hostile_cells_give_errors() {
    for bad in [0, 1] {
        let mut memory = [MaybeUninit::new(0u64); 2];
        let region = Region::<InOrder16>::new(&mut memory);
        let len = Cells::<InOrder16, bool>::bytes(2);
        assert_eq!(len, 16);
        let mut cells = Cells::format(region, 2, CELL, false).unwrap();
        cells.set(1, stamp(2, 1), true, none).unwrap();
        let region = cells.close();
        // SAFETY: inside, aligned, and nothing is lent.
        unsafe { region.store(8 + 4 + 2 * bad, 2) };
        // Number 1 of owner 2 is in doubt, so version 0 counts.
        match Cells::<_, bool>::recover(region, 2, CELL, none) {
            Ok(cells) => {
                assert_eq!((bad, cells.get(1, none)), (1, Ok(false)));
            }
            Err(failed) => {
                assert!(matches!(failed.error, TagError::Invalid { index: 1, .. }));
                assert_eq!(bad, 0);
            }
        }
    }
}

/// Whatever a resolver answers, a cell gives values.
#[test]
fn a_resolver_that_lies_gives_values() {
    let mut memory = [MaybeUninit::new(0u64); 2];
    let region = Region::<InOrder16>::new(&mut memory);
    let mut cells = Cells::format(region, 2, CELL, false).unwrap();
    cells.set(1, stamp(2, 1), true, none).unwrap();
    let region = cells.close();
    // SAFETY: inside, aligned, and nothing is lent.
    unsafe { region.store(8 + 4 + 2, 2) };
    // The first answer is that number 1 is in doubt, the later ones that it is committed.
    let asked = std::cell::Cell::new(0);
    let lies = |_| {
        asked.set(asked.get() + 1);
        Some(if asked.get() > 1 { 1 } else { 0 })
    };
    let failed = Cells::<_, bool>::recover(region, 2, CELL, lies)
        .err()
        .unwrap();
    assert!(matches!(failed.error, TagError::Invalid { index: 1, .. }));
}

/// The format: every byte.
fn image<M: Model>(f: impl FnOnce(Region<'_, M>)) -> Vec<u8> {
    let mut memory = [MaybeUninit::new(0u64); 4];
    f(Region::new(&mut memory));
    // SAFETY: initialised above, and padding is written as zeros.
    let words = memory.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

#[test]
fn golden_words() {
    fn two<M: Model>(region: Region<'_, M>) {
        let mut w = Words::format(region, 3, WIDTHS).unwrap();
        w.publish(0, 9, none).unwrap();
        w.publish(1, 3, none).unwrap();
        w.set(1, stamp(2, 11), 12, all(10)).unwrap();
    }
    // Number 11, owner 2, 3 before and 12 after.
    let word = 11u16 << 10 | 2 << 8 | 3 << 4 | 12;
    let mut want = [0; 32];
    want[..2].copy_from_slice(&0x99u16.to_le_bytes());
    want[2..4].copy_from_slice(&word.to_le_bytes());
    assert_eq!(image::<InOrder16>(two), want);
    let mut want = [0; 32];
    want[0] = 0x99;
    want[4..6].copy_from_slice(&word.to_le_bytes());
    assert_eq!(image::<InOrder32>(two), want);
}

#[test]
fn golden_cells() {
    let got = image::<InOrder16>(|region| {
        let mut c = Cells::format(region, 2, CELL, [1u8, 2, 3]).unwrap();
        c.set(1, stamp(1, 7), [4, 5, 6], all(6)).unwrap();
    });
    // Number 7, owner 1, version 0 before and 1 after.
    let word = 7u16 << 4 | 1 << 2 | 1;
    let mut want = [0; 32];
    want[2..4].copy_from_slice(&word.to_le_bytes());
    want[8..11].copy_from_slice(&[1, 2, 3]);
    want[16..19].copy_from_slice(&[1, 2, 3]);
    want[20..23].copy_from_slice(&[4, 5, 6]);
    assert_eq!(got, want);
}
