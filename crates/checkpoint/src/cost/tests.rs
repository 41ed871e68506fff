//! Bounds are exact or saturate, for all inputs: checked against 128-bit arithmetic, and against
//! each counted write.

extern crate std;
use super::*;
use crate::Log;
use crate::format::{HEAD, PIECE};
use nvmem::device::{Contract, EraseUnit, Torn};
use proptest::prelude::*;
use std::panic::catch_unwind;

/// Numbers near those where something wraps or is left out.
fn edges32() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        0..300u32,
        any::<u32>(),
        (0..32u32).prop_map(|k| 1 << k),
        (0..32u32).prop_map(|k| (1u32 << k).wrapping_sub(1)),
        Just(u32::MAX),
    ]
}

fn edges64() -> impl Strategy<Value = u64> {
    prop_oneof![
        edges32().prop_map(u64::from),
        any::<u64>(),
        (0..64u32).prop_map(|k| 1 << k),
        (0..40u64).prop_map(|k| u64::MAX - k),
    ]
}

fn works() -> impl Strategy<Value = Work> {
    let of = |[read, compared, written, programs, erases]: [u64; 5]| Work {
        read,
        compared,
        written,
        programs,
        erases,
    };
    prop::array::uniform5(edges64()).prop_map(of)
}

fn costs() -> impl Strategy<Value = Cost> {
    prop::array::uniform9(edges32()).prop_map(|c| Cost {
        name: "any",
        operation: c[0],
        read_pj: c[1],
        read_ns: c[2],
        compare_pj: c[3],
        compare_ns: c[4],
        program_nj: c[5],
        program_ns: c[6],
        erase_nj: c[7],
        erase_ns: c[8],
    })
}

/// Whether `given` is the exact number, or saturated because there is no `room` for it.
fn exact_or_saturated(given: u64, exact: u128, room: bool) -> bool {
    u128::from(given) == exact || given == u64::MAX && !room
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 600 }))]

    #[test]
    fn energy_and_time_do_not_wrap(w in works(), c in costs(), budget in prop::array::uniform2(edges64())) {
        let n = |n: u64, each: u32| u128::from(n) * u128::from(each);
        let reads = n(w.read, c.read_pj) + n(w.compared, c.compare_pj);
        let nj = reads.div_ceil(1000) + n(w.programs, c.program_nj) + n(w.erases, c.erase_nj);
        let ns = n(w.read, c.read_ns) + n(w.compared, c.compare_ns) + n(w.programs, c.program_ns) + n(w.erases, c.erase_ns);
        // In picojoules and nanojoules, and in nanoseconds.
        let room = reads.max(nj).max(ns) < u128::from(u64::MAX);
        prop_assert!(exact_or_saturated(c.energy_nj(&w), nj, room));
        prop_assert!(exact_or_saturated(c.time_ns(&w), ns, room));
        let (uj, us) = (nj.div_ceil(1000), ns.div_ceil(1000));
        let price = c.of(&w);
        prop_assert!(exact_or_saturated(price.microjoules, uj, room));
        prop_assert!(exact_or_saturated(price.microseconds, us, room));
        let budget = Price { microjoules: budget[0], microseconds: budget[1] };
        let enough = uj <= budget.microjoules.into() && us <= budget.microseconds.into();
        prop_assert!(!budget.allows(&price) || enough, "{w:?} is allowed");
        prop_assert!(!(enough && room) || budget.allows(&price), "{w:?} is refused");
        prop_assert_eq!(budget.check(&c, &w).is_ok(), budget.allows(&price));
    }

    #[test]
    fn works_add_up(a in works(), b in works()) {
        let all = |w: &Work| [w.read, w.compared, w.written, w.programs, w.erases];
        let sum = all(&a.and(b));
        for ((a, b), sum) in all(&a).into_iter().zip(all(&b)).zip(sum) {
            prop_assert_eq!(u128::from(sum), (u128::from(a) + u128::from(b)).min(u64::MAX.into()));
        }
    }

    #[test]
    fn operations_of_a_write(at in edges32(), len in edges32(), c in costs()) {
        let op = u128::from(c.operation.max(1));
        let (at128, len128) = (u128::from(at), u128::from(len));
        let exact = if len == 0 { 0 } else { (at128 + len128 - 1) / op - at128 / op + 1 };
        prop_assert_eq!(u128::from(c.operations(at, len)), exact);
    }

    /// Counts each write of an image, at each offset where a slot may begin, for any operation
    /// size.
    #[test]
    fn no_image_takes_more_than_its_bound(
        word in prop_oneof![Just(1), Just(4), Just(16), 1..=PIECE as u32],
        units in 0..5u32,
        unstable in any::<bool>(),
        body in 0..3000u32,
        start in 0..50u32,
        operation in prop_oneof![0..40u32, edges32()],
    ) {
        let erase = (units > 0).then_some(EraseUnit { size: units * word, erased: 0xFF, write_once: true, endurance: 0 });
        let torn = if unstable && units > 0 { Torn::Unstable } else { Torn::Arbitrary };
        let s = Sizes::of(&Contract { name: "any", read_size: 1, write_size: word, unit: 1, torn, erase });
        let c = Cost { operation, ..Cost::STM32F0 };
        let bound = work(&s, body, true, &c);
        let base = start * s.align;
        let end = s.content(body);
        let last = (end - TRAILER) / s.word * s.word;
        let (mut at, mut programs) = (0, 0);
        while at < end {
            let stop = if at < last { last } else { end };
            let mut len = s.piece().min(stop - at);
            if s.erases {
                len = len.min(s.unit - at % s.unit);
            }
            programs += c.operations(base + at, len);
            at += len;
        }
        for which in 0..MARKER_WORDS {
            programs += c.operations(base + end + which * s.marker, s.marker);
        }
        let whole = end + MARKER_WORDS * s.marker;
        prop_assert!(programs <= bound.programs, "{programs} of {bound:?}");
        prop_assert_eq!(bound.written, u64::from(whole));
        prop_assert!(!s.erases || u64::from(whole.div_ceil(s.unit)) <= bound.erases);
        prop_assert!(bound.compared >= u64::from(end));
    }

    #[test]
    fn sizes_of_ranges_do_not_wrap(memory in edges32(), extents in edges32()) {
        sized::<1, 0>(memory, extents)?;
        sized::<4, 2048>(memory, extents)?;
        sized::<256, 0x4000_0000>(memory, extents)?;
        sized_log::<1, 0>(memory)?;
        sized_log::<4, 2048>(memory)?;
        sized_log::<256, 0x2000_0000>(memory)?;
        sized::<1, 0x8000_0000>(memory, extents)?;
    }

    #[test]
    fn the_worst_case_does_not_wrap(m in prop::array::uniform5(edges32()), c in costs()) {
        let m = Maxima { statics: m[0], heap: m[1], heap_used: m[2], stack: m[3], stack_used: m[4] };
        images::<1, 0>(&m, &c)?;
        images::<4, 2048>(&m, &c)?;
        images::<256, 0x8000_0000>(&m, &c)?;
        log::<1, 0, 32>(&m, &c)?;
        log::<4, 2048, 128>(&m, &c)?;
        log::<128, 256, 128>(&m, &c)?;
        log::<256, 0x2000_0000, 4096>(&m, &c)?;
    }
}

/// A medium with only a contract; it is never used.
struct Chip<const WORD: u32, const ERASE: u32>;

impl<const WORD: u32, const ERASE: u32> Medium for Chip<WORD, ERASE> {
    type Error = ();
    const CONTRACT: Contract = Contract {
        name: "chip",
        read_size: 1,
        write_size: WORD,
        unit: 1,
        torn: if ERASE == 0 {
            Torn::Prefix
        } else {
            Torn::Unstable
        },
        erase: if ERASE == 0 {
            None
        } else {
            Some(EraseUnit {
                size: ERASE,
                erased: 0xFF,
                write_once: true,
                endurance: 0,
            })
        },
    };
    fn capacity(&self) -> u32 {
        u32::MAX
    }
    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), ()> {
        Err(())
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), ()> {
        Err(())
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), ()> {
        Err(())
    }
}

type Checked = Result<(), TestCaseError>;

fn up(n: u128, to: u128) -> u128 {
    n.div_ceil(to) * to
}

fn sized<const WORD: u32, const ERASE: u32>(memory: u32, extents: u32) -> Checked {
    const N: usize = 3;
    let (word, align) = (u128::from(WORD), u128::from(WORD.max(ERASE)));
    let body = u128::from(memory) + 8 * u128::from(extents);
    let content = if ERASE == 0 {
        up(u128::from(HEAD) + body, word) + up(8, word)
    } else {
        up(u128::from(HEAD) + body + 8, word) + 2 * up(4, word)
    };
    let exact = up(content, align) * N as u128;
    let given = Images::<Chip<WORD, ERASE>, N>::bytes(memory, extents);
    prop_assert!(
        u128::from(given) == exact || given == u32::MAX,
        "{given}, not {exact}"
    );
    prop_assert!(
        u128::from(given) == exact || exact > 1 << 31,
        "{exact} is refused"
    );

    Ok(())
}

/// At least three times the bytes, or none.
fn sized_log<const WORD: u32, const ERASE: u32>(memory: u32) -> Checked {
    let given = Log::<Chip<WORD, ERASE>, 1000, 128, 256>::bytes(memory);
    prop_assert!(given == u32::MAX || u128::from(given) > 3 * u128::from(memory));
    prop_assert!(given < u32::MAX || memory > 50_000 || ERASE > 1 << 20);
    Ok(())
}

/// Checks that at least so many bytes are written.
fn least(w: Work, bytes: u128, c: &Cost) -> Checked {
    prop_assert!(u128::from(w.written) >= bytes, "{w:?}, of {bytes} bytes");
    let programs = bytes / u128::from(c.operation.max(1));
    prop_assert!(u128::from(w.programs) >= programs, "{w:?}, of {programs}");
    Ok(())
}

fn images<const WORD: u32, const ERASE: u32>(m: &Maxima, c: &Cost) -> Checked {
    type I<const WORD: u32, const ERASE: u32> = Images<Chip<WORD, ERASE>, 3>;
    let full = u128::from(m.statics) + u128::from(m.heap) + u128::from(m.stack);
    let split = u128::from(m.statics) + u128::from(m.heap_used) + u128::from(m.stack_used);
    let stack = u128::from(m.statics) + u128::from(m.stack_used);
    // Sizes that no medium has are refused: see below.
    let fits = |bytes: u128| bytes < (1 << 31) - 100;
    if fits(full) {
        least(
            I::<WORD, ERASE>::worst_case::<CopyIfChange<Full>>(m, c),
            full,
            c,
        )?;
        let restore = I::<WORD, ERASE>::worst_restore::<Full>(m, c);
        prop_assert!(u128::from(restore.read) >= 2 * full, "{restore:?}");
    }
    if fits(split) {
        least(I::<WORD, ERASE>::worst_case::<Split>(m, c), split, c)?;
        let restore = I::<WORD, ERASE>::worst_restore::<Split>(m, c);
        prop_assert!(u128::from(restore.read) >= 2 * split, "{restore:?}");
    }
    if fits(stack) {
        least(I::<WORD, ERASE>::worst_case::<Stack>(m, c), stack, c)?;
        let restore = I::<WORD, ERASE>::worst_restore::<Stack>(m, c);
        prop_assert!(u128::from(restore.read) >= 2 * stack, "{restore:?}");
    }
    Ok(())
}

/// They are refused rather than given a smaller bound.
#[test]
fn what_no_medium_has_room_for_is_refused() {
    type I = Images<Chip<4, 2048>, 3>;
    for statics in [(1 << 31) - 10, 1 << 31, u32::MAX - 20, u32::MAX] {
        let m = Maxima {
            statics,
            heap: statics,
            ..Maxima::default()
        };
        assert!(catch_unwind(|| I::worst_case::<Full>(&m, &Cost::STM32F0)).is_err());
        assert!(catch_unwind(|| I::worst_restore::<Stack>(&m, &Cost::STM32F0)).is_err());
    }
}

fn log<const WORD: u32, const ERASE: u32, const CELL: usize>(m: &Maxima, c: &Cost) -> Checked {
    type L<const WORD: u32, const ERASE: u32, const CELL: usize> =
        Log<Chip<WORD, ERASE>, 200, 5, CELL>;
    let heap = u128::from(m.heap.min(m.heap_used));
    let bytes = u128::from(m.statics) + heap + u128::from(m.stack.min(m.stack_used));
    let worst = L::<WORD, ERASE, CELL>::worst_case(m, c);
    least(worst, bytes, c)?;
    prop_assert!(u128::from(worst.compared) >= bytes, "{worst:?}");
    let restore = L::<WORD, ERASE, CELL>::worst_restore(m, c);
    prop_assert!(u128::from(restore.read) >= 2 * bytes, "{restore:?}");
    Ok(())
}

/// A saturated price may stand for any larger one.
#[test]
fn no_budget_allows_what_does_not_fit() {
    let all = Price {
        microjoules: u64::MAX,
        microseconds: u64::MAX,
    };
    let w = Work {
        erases: u64::MAX,
        ..Work::default()
    };
    assert!(!all.allows(&Cost::STM32F0.of(&w)));
    let none = Cost::SPI_FRAM.of(&w);
    assert!(all.allows(&none) && none.microseconds == 0, "{none:?}");
}
