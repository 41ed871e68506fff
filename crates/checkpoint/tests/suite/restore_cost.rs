//! No restore costs more than `worst_restore`, and the worst costs nearly as much: counted by the
//! medium.

use crate::support::counting::{Counting, counted, within};
use crate::support::program::{Bits, Program};
use checkpoint::nvmem::device::{Contract, Medium, Torn};
use checkpoint::nvmem::ram::{RamFram, RamMram, RamNor};
use checkpoint::{
    Bounded, CopyIfChange, Cost, Error, Full, HeapTracker, Images, Split, Stack, Work,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::fmt::Debug;

/// The power is cut before one of the writes. With `WIDE`, reads are of whole words, too.
struct Cut<'c, D, const WIDE: bool> {
    inner: D,
    writes: &'c Cell<u32>,
    last: &'c Cell<u32>,
}

impl<D: Medium, const WIDE: bool> Medium for Cut<'_, D, WIDE> {
    type Error = ();
    const CONTRACT: Contract = Contract {
        read_size: if WIDE { D::CONTRACT.write_size } else { 1 },
        ..D::CONTRACT
    };
    fn capacity(&self) -> u32 {
        self.inner.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
        let size = Self::CONTRACT.read_size;
        assert!(at.is_multiple_of(size) && (buf.len() as u32).is_multiple_of(size));
        self.inner.read(at, buf).map_err(|_| ())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), ()> {
        if self.writes.get() == self.last.get() {
            return Err(());
        }
        self.writes.set(self.writes.get() + 1);
        self.inner.write(at, bytes).map_err(|_| ())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), ()> {
        self.inner.erase(from, to).map_err(|_| ())
    }
}

/// No memory is zero.
fn full() -> Program {
    Program {
        statics: vec![1; 700],
        heap: vec![2; 900],
        stack: vec![3; 500],
        heap_used: 900,
        stack_used: 490,
        blocks: u64::MAX,
    }
}

/// The cost of a boot after some checkpoints: after they returned, and after a cut before the last
/// write of another one.
fn boots<D: Medium<Error: Debug>, M: Bounded, const N: usize, const WIDE: bool>(
    d: D,
    cost: Cost,
    mode: &M,
    p: &mut Program,
) -> [Work; 2] {
    let (work, writes, last) = (Cell::default(), Cell::new(0), Cell::new(u32::MAX));
    let mut medium = Counting {
        inner: Cut::<_, WIDE> {
            inner: d,
            writes: &writes,
            last: &last,
        },
        cost,
        work: &work,
    };
    let all = 0..medium.capacity() / D::CONTRACT.alignment() * D::CONTRACT.alignment();
    let mut before = 0;
    for n in 0..N as u32 {
        let mut images = Images::<_, N>::open(&mut medium, all.clone(), 7).unwrap();
        images.checkpoint(mode, &p.memory(), n).unwrap();
        before = writes.take();
    }
    let mut boot = |n: u32| {
        work.take();
        let mut images = Images::<_, N>::open(&mut medium, all.clone(), 7).unwrap();
        let found = images.restore(&mut p.memory()).unwrap();
        assert_eq!(found.context, n);
        let taken = work.take();
        last.set(writes.replace(0) + before - 1);
        writes.set(last.get() + 1 - before);
        let cut = images.checkpoint(mode, &p.memory(), n + 1);
        assert!(matches!(cut, Err(Error::Medium(()))));
        last.set(u32::MAX);
        taken
    };
    let n = N as u32 - 1;
    let unstable = matches!(D::CONTRACT.torn, Torn::Unstable);
    // An image without confirmation is valid and copied; without its trailer it is not valid.
    [boot(n), boot(if unstable { n + 1 } else { n })]
}

fn check<D: Medium<Error: Debug>, M: Bounded, const N: usize>(
    blank: impl Fn() -> D,
    cost: Cost,
    mode: &M,
    p: &mut Program,
    near: bool,
) {
    let name = D::CONTRACT.name;
    let worst = counted(Images::<D, N>::worst_restore::<M>(&p.most(), &cost));
    let wide = Images::<Cut<'_, D, true>, N>::worst_restore::<M>(&p.most(), &cost);
    let seen = boots::<_, _, N, false>(blank(), cost, mode, p);
    for w in &seen {
        assert!(within(w, &worst), "{name}: {w:?}, at most {worst:?}");
    }
    for w in boots::<_, _, N, true>(blank(), cost, mode, p) {
        let worst = counted(wide);
        assert!(within(&w, &worst), "{name}, wide: {w:?}, at most {worst:?}");
    }
    if near {
        let (most, bound) = (cost.energy_nj(&seen[1]), cost.energy_nj(&worst));
        assert!(bound <= most + most / 10, "{name}: {most} nJ, not {bound}");
    }
}

type L1 = RamNor<48, 256, 128, 0x00>;
type F0 = RamNor<6, 2048, 4>;
type Serial = RamNor<3, 4096, 1>;
type Fram = RamFram<8192>;

const MRAM: Cost = Cost {
    operation: 16,
    ..Cost::SPI_FRAM
};

fn media(p: &mut Program, near: bool) {
    fn modes<D: Medium<Error: Debug>, const N: usize>(
        blank: impl Fn() -> D + Copy,
        cost: Cost,
        p: &mut Program,
        near: bool,
    ) {
        check::<_, _, N>(blank, cost, &Full, p, near);
        check::<_, _, N>(blank, cost, &Stack, p, near);
        check::<_, _, N>(blank, cost, &Split, p, near);
        let blocks = Bits(p.blocks);
        check::<_, _, N>(blank, cost, &HeapTracker(&blocks), p, near);
    }
    modes::<_, 3>(L1::new, Cost::STM32L1, p, near);
    modes::<_, 3>(F0::new, Cost::STM32F0, p, near);
    modes::<_, 3>(Serial::new, Cost::SPI_NOR, p, near);
    modes::<_, 2>(|| Fram::filled(0), Cost::SPI_FRAM, p, near);
    modes::<_, 2>(|| RamMram::<8192>::filled(0), MRAM, p, near);
}

fn bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
    // Runs, half of them of zeros.
    prop::collection::vec((0..=255u8, 1..40usize), 0..40).prop_map(move |runs| {
        let run = |(b, n): (u8, usize)| std::iter::repeat_n(b * (b & 1), n);
        runs.into_iter().flat_map(run).take(len).collect()
    })
}

prop_compose! {
    fn any_program()(
        statics in bytes(900),
        heap in bytes(1100),
        mut stack in bytes(500),
        heap_used in 0..=100usize,
        stack_used in 0..=100usize,
        blocks in any::<u64>(),
    ) -> Program {
        stack.push(1);
        Program {
            heap_used: heap.len() * heap_used / 100,
            stack_used: stack.len() * stack_used / 100,
            statics, heap, stack, blocks,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "each case is 160 checkpoints of kilobytes")]
    fn nothing_takes_more_than_the_worst_case(mut p in any_program()) {
        media(&mut p, false);
    }
}

#[test]
#[cfg_attr(miri, ignore = "160 checkpoints of kilobytes")]
fn the_worst_case_is_within_a_tenth_of_the_worst_seen() {
    media(&mut full(), true);
}

/// Exact to the byte, if memory has as many extents as a mode may have.
#[test]
fn the_worst_case_is_exact() {
    let mut p = Program {
        statics: vec![1; 300],
        heap: vec![2; 200],
        heap_used: 150,
        stack: vec![3; 100],
        stack_used: 60,
        blocks: u64::MAX,
    };
    let most = p.most();
    let fram = Images::<Fram, 2>::worst_restore::<Split>(&most, &Cost::SPI_FRAM);
    let seen = boots::<_, _, 2, false>(Fram::filled(0), Cost::SPI_FRAM, &Split, &mut p);
    assert_eq!(seen, [counted(fram); 2]);
    // Two scans of two slots' ends, the head, and twice the body with a trailer.
    assert_eq!(
        fram.read,
        2 * 2 * 44 + 36 + 2 * (300 + 150 + 60 + 3 * 8 + 8)
    );
    let nor = Images::<L1, 3>::worst_restore::<Split>(&most, &Cost::STM32L1);
    let seen = boots::<_, _, 3, false>(L1::new(), Cost::STM32L1, &Split, &mut p);
    assert_eq!(seen[1], counted(nor));
    // Five words of content and two marker words, in four units.
    assert_eq!((nor.written, nor.programs, nor.erases), (7 * 128, 7, 4));
    assert_eq!(seen[0].erases + seen[0].written, 0);
}

/// Each rejected image costs at most the same again.
#[test]
#[cfg_attr(miri, ignore = "eight checkpoints of 2,000 bytes")]
fn each_rejected_image_costs_the_same_again() {
    let mut p = full();
    let worst = counted(Images::<Fram, 4>::worst_restore::<Split>(
        &p.most(),
        &Cost::SPI_FRAM,
    ));
    for damaged in 0..4u32 {
        let work = Cell::default();
        let mut fram = RamFram::<12_000>::filled(0);
        for n in 0..4 {
            let mut images = Images::<_, 4>::open(&mut fram, 0..12_000, 7).unwrap();
            images
                .checkpoint(&CopyIfChange(Split), &p.memory(), n)
                .unwrap();
        }
        // The last byte before the trailer, which a restore reads last.
        for slot in (4 - damaged as usize)..4 {
            let of_body = slot * 3000 + 36 + 700 + 900 + 490 + 3 * 8 - 1;
            fram.bytes_mut()[of_body] ^= 1;
        }
        let inner = Counting {
            inner: &mut fram,
            cost: Cost::SPI_FRAM,
            work: &work,
        };
        let mut images = Images::<_, 4>::open(inner, 0..12_000, 7).unwrap();
        let found = images.restore(&mut p.memory()).unwrap();
        assert_eq!(
            (found.context, u32::from(found.damaged)),
            (3 - damaged, damaged)
        );
        let seen = work.get().compared;
        let most = u64::from(damaged + 1) * worst.compared;
        assert!(seen <= most, "{damaged}: {seen} of {most}");
        assert!(damaged == 0 || seen > worst.compared, "{damaged}: {seen}");
    }
}
