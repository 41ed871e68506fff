//! No checkpoint costs more than `worst_case`, and the worst costs nearly as much: counted by the
//! medium.

use crate::support::counting::{Counting, counted, within};
use crate::support::program::{Bits, Program};
use checkpoint::nvmem::device::Medium;
use checkpoint::nvmem::ram::{RamFram, RamMram, RamNor};
use checkpoint::{
    BLOCK, Bounded, CopyIfChange, Cost, Full, HeapTracker, Images, Maxima, Memory, Price, Split,
    Stack, Work,
};
use proptest::prelude::*;
use std::cell::Cell;

/// Takes checkpoints into each slot more than once. Returns the largest cost of one.
fn seen<D: Medium, M: Bounded, const N: usize>(
    d: D,
    cost: Cost,
    mode: &M,
    p: &mut Program,
) -> Vec<Work> {
    let all = 0..d.capacity() / D::CONTRACT.alignment() * D::CONTRACT.alignment();
    let work = Cell::default();
    let mut d = Counting {
        inner: d,
        cost,
        work: &work,
    };
    let mut out = Vec::new();
    for n in 0..2 * N as u32 {
        for b in p
            .stack
            .iter_mut()
            .chain(&mut p.statics)
            .chain(&mut p.heap)
            .filter(|b| **b != 0)
        {
            *b = b.wrapping_add(1).max(1);
        }
        let mut images = Images::<_, N>::open(&mut d, all.clone(), 7).unwrap();
        work.take();
        images.checkpoint(mode, &p.memory(), n).unwrap();
        out.push(work.take());
    }
    out
}

fn check<D: Medium, M: Bounded, const N: usize>(
    d: D,
    cost: Cost,
    mode: &M,
    p: &mut Program,
    near: bool,
) {
    let worst = counted(Images::<D, N>::worst_case::<M>(&p.most(), &cost));
    let all = seen::<D, M, N>(d, cost, mode, p);
    for w in &all {
        assert!(
            within(w, &worst),
            "{} {cost:?}: {w:?}, at most {worst:?}",
            D::CONTRACT.name
        );
    }
    if near {
        let most = all.iter().map(|w| cost.energy_nj(w)).max().unwrap();
        let bound = cost.energy_nj(&worst);
        assert!(
            bound <= most + most / 10,
            "{}: {most} nJ seen, at most {bound}",
            D::CONTRACT.name
        );
    }
}

type L1 = RamNor<48, 256, 128, 0x00>;
type F0 = RamNor<6, 2048, 4>;
type Serial = RamNor<3, 4096, 1>;

fn media(p: &mut Program, near: bool) {
    fn modes<D: Medium, const N: usize>(
        blank: impl Fn() -> D,
        cost: Cost,
        p: &mut Program,
        near: bool,
    ) {
        check::<_, _, N>(blank(), cost, &Full, p, near);
        check::<_, _, N>(blank(), cost, &Stack, p, near);
        check::<_, _, N>(blank(), cost, &Split, p, near);
        check::<_, _, N>(blank(), cost, &CopyIfChange(Split), p, false);
        check::<_, _, N>(blank(), cost, &CopyIfChange(Full), p, false);
        let blocks = Bits(p.blocks);
        check::<_, _, N>(blank(), cost, &HeapTracker(&blocks), p, near);
    }
    modes::<_, 3>(L1::new, Cost::STM32L1, p, near);
    modes::<_, 3>(F0::new, Cost::STM32F0, p, near);
    modes::<_, 3>(Serial::new, Cost::SPI_NOR, p, near);
    modes::<_, 2>(|| RamFram::<8192>::filled(0), Cost::SPI_FRAM, p, near);
    let paged = Cost {
        operation: 16,
        ..Cost::SPI_FRAM
    };
    modes::<_, 2>(|| RamFram::<8192>::filled(0), paged, p, false);
    modes::<_, 2>(|| RamMram::<8192>::filled(0), paged, p, near);
}

fn bytes(len: std::ops::Range<usize>, zeros: bool) -> impl Strategy<Value = Vec<u8>> {
    let byte = if zeros { 0..=255u8 } else { 1..=255u8 };
    // Runs, some of them of zeros.
    prop::collection::vec((byte, 1..40usize), 0..40).prop_map(move |runs| {
        let all = runs.into_iter().flat_map(|(b, n)| {
            let b = if zeros && b & 1 == 0 { 0 } else { b };
            std::iter::repeat_n(b, n)
        });
        let mut all: Vec<u8> = all.take(len.end).collect();
        if all.len() < len.start {
            all.resize(len.start, 1);
        }
        all
    })
}

fn any_program(zeros: bool) -> impl Strategy<Value = Program> {
    (
        bytes(0..900, zeros),
        bytes(0..1100, zeros),
        bytes(1..500, zeros),
        (0..=100usize, 0..=100usize, any::<u64>()),
    )
        .prop_map(
            |(statics, heap, stack, (heap_used, stack_used, blocks))| Program {
                heap_used: heap.len() * heap_used / 100,
                stack_used: stack.len() * stack_used / 100,
                statics,
                heap,
                stack,
                blocks,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "each case is 160 checkpoints of kilobytes")]
    fn nothing_takes_more_than_the_worst_case(mut p in any_program(true)) {
        media(&mut p, false);
    }

    /// The worst case is memory without zeros, except one at the end of the statics and of a
    /// tracked heap.
    #[test]
    #[cfg_attr(miri, ignore = "each case is 160 checkpoints of kilobytes")]
    fn the_worst_case_is_within_a_tenth_of_the_worst_seen(mut p in any_program(false)) {
        p.heap.resize(p.heap.len().max(400) / 4 * 4, 1);
        p.heap.push(0);
        p.statics.resize(p.statics.len().max(400) / 4 * 4, 1);
        p.statics.push(0);
        p.blocks = !(1 << (p.heap.len() / BLOCK as usize));
        media(&mut p, true);
    }
}

/// A unit whose last byte differs is compared as a whole, and written.
#[test]
#[cfg_attr(
    miri,
    ignore = "six checkpoints of 3,000 bytes, opened four times each"
)]
fn all_is_compared_when_the_last_byte_differs() {
    let most = Maxima {
        statics: 2000,
        stack: 1000,
        stack_used: 1000,
        ..Maxima::default()
    };
    let all = 0..L1::new().capacity();
    let cost = Cost::STM32L1;
    let work = Cell::default();
    let mut d = Counting {
        inner: L1::new(),
        cost,
        work: &work,
    };
    let worst = counted(Images::<L1, 3>::worst_case::<CopyIfChange<Split>>(
        &most, &cost,
    ));
    let (mut statics, mut stack) = ([1u8; 2000], [1u8; 1000]);
    for n in 0..6u8 {
        for at in (0..3000).rev().step_by(64) {
            *statics.iter_mut().chain(&mut stack).nth(at).unwrap() = n;
        }
        let mut images = Images::<_, 3>::open(&mut d, all.clone(), 7).unwrap();
        work.take();
        images
            .checkpoint(
                &CopyIfChange(Split),
                &Memory::new(&mut statics, &mut [], &mut stack),
                n.into(),
            )
            .unwrap();
        let taken = work.take();
        assert!(within(&taken, &worst), "{taken:?}, at most {worst:?}");
        if n >= 3 {
            let (seen, bound) = (cost.energy_nj(&taken), cost.energy_nj(&worst));
            assert!(bound <= seen + seen / 10, "{seen} nJ seen, at most {bound}");
        }
    }
}

#[test]
fn a_budget_refuses() {
    let most = Maxima {
        statics: 81_920,
        ..Maxima::default()
    };
    let worst = Images::<L1, 3>::worst_case::<Full>(&most, &Cost::STM32L1);
    let price = Cost::STM32L1.of(&worst);
    // The paper's 85.2 mJ and slightly more than 3 s, and the cost of head, trailer and marker.
    assert!((85_200..86_500).contains(&price.microjoules), "{price:?}");
    assert!(
        (3_100_000..3_300_000).contains(&price.microseconds),
        "{price:?}"
    );
    assert!(price.check(&Cost::STM32L1, &worst).is_ok());
    let less = Price {
        microseconds: price.microseconds - 1,
        ..price
    };
    let e = less.check(&Cost::STM32L1, &worst).unwrap_err();
    assert_eq!((e.needed, e.budget), (price, less));
    let less = Price {
        microjoules: price.microjoules - 1,
        ..price
    };
    assert!(less.check(&Cost::STM32L1, &worst).is_err());
    let (mut statics, mut heap, mut stack) = ([0; 30], [0; 20], [0; 10]);
    let most = Maxima::of(
        &Memory::new(&mut statics, &mut heap, &mut stack)
            .stack_from(3)
            .heap_used(2),
    );
    assert_eq!(
        most,
        Maxima {
            statics: 30,
            heap: 20,
            heap_used: 20,
            stack: 10,
            stack_used: 10
        }
    );
}
