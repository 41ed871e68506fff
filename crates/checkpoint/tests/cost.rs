//! That no checkpoint takes more than `worst_case` says, and the worst nearly as much: counted by the medium.

use checkpoint::nvmem::device::{Contract, Medium};
use checkpoint::nvmem::ram::{RamFram, RamMram, RamNor};
use checkpoint::{
    BLOCK, Blocks, Bounded, CopyIfChange, Cost, Full, HeapTracker, Images, Memory, Most, Price,
    Split, Stack, Work,
};
use proptest::prelude::*;

/// Counts what its medium is told to do.
struct Counting<D> {
    inner: D,
    cost: Cost,
    work: Work,
    /// Whether what is read is compared.
    comparing: bool,
}

impl<D: Medium> Medium for Counting<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.inner.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        let n = buf.len() as u64;
        *(if self.comparing {
            &mut self.work.compared
        } else {
            &mut self.work.read
        }) += n;
        self.inner.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.work.written += bytes.len() as u64;
        self.work.programs += self.cost.operations(at, bytes.len() as u32);
        self.inner.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        if let Some(e) = D::CONTRACT.erase {
            self.work.erases += u64::from((to - from) / e.size);
        }
        self.inner.erase(from, to)
    }
}

/// Blocks in use by a bit each.
struct Bits(u64);
impl Blocks for Bits {
    fn in_use(&self, block: u32) -> bool {
        self.0 >> (block % 64) & 1 != 0
    }
}

#[derive(Debug, Clone)]
struct Program {
    statics: Vec<u8>,
    heap: Vec<u8>,
    stack: Vec<u8>,
    heap_used: usize,
    stack_used: usize,
    blocks: u64,
}

impl Program {
    fn memory(&mut self) -> Memory<'_> {
        let from = self.stack.len() - self.stack_used;
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(self.heap_used)
            .stack_from(from)
    }
    fn most(&self) -> Most {
        Most {
            statics: self.statics.len() as u32,
            heap: self.heap.len() as u32,
            heap_used: self.heap_used as u32,
            stack: self.stack.len() as u32,
            stack_used: self.stack_used as u32,
        }
    }
}

fn within(seen: &Work, worst: &Work) -> bool {
    seen.read <= worst.read
        && seen.compared <= worst.compared
        && seen.written <= worst.written
        && seen.programs <= worst.programs
        && seen.erases <= worst.erases
}

/// Checkpoints into each slot more than once; the most that one of them took.
fn seen<D: Medium, M: Bounded, const N: usize>(
    d: D,
    cost: Cost,
    mode: &M,
    p: &mut Program,
) -> Vec<Work> {
    let all = 0..d.capacity() / D::CONTRACT.alignment() * D::CONTRACT.alignment();
    let counting = Counting {
        inner: d,
        cost,
        work: Work::default(),
        comparing: true,
    };
    let mut images = Images::<_, N>::open(counting, all.clone(), 7).unwrap();
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
        let mut d = images.into_medium();
        d.work = Work::default();
        d.comparing = false;
        images = Images::open(d, all.clone(), 7).unwrap();
        let mut d = images.into_medium();
        let opened = d.work;
        d.comparing = true;
        d.work = Work::default();
        images = Images::open(d, all.clone(), 7).unwrap();
        images.checkpoint(mode, &p.memory(), n).unwrap();
        let mut d = images.into_medium();
        d.work.compared -= opened.read;
        out.push(d.work);
        images = Images::open(d, all.clone(), 7).unwrap();
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
    let worst = Images::<D, N>::worst_case::<M>(&p.most(), &cost);
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
    let mram = Cost {
        operation: 16,
        ..Cost::SPI_FRAM
    };
    modes::<_, 2>(|| RamMram::<8192>::filled(0), mram, p, near);
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

fn program(zeros: bool) -> impl Strategy<Value = Program> {
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
    fn nothing_takes_more_than_the_worst_case(mut p in program(true)) {
        media(&mut p, false);
    }

    /// Memory without zeros is the worst case, with one at the end of the statics and of a tracked heap.
    #[test]
    #[cfg_attr(miri, ignore = "each case is 160 checkpoints of kilobytes")]
    fn the_worst_case_is_within_a_tenth_of_the_worst_seen(mut p in program(false)) {
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
    let most = Most {
        statics: 2000,
        stack: 1000,
        stack_used: 1000,
        ..Most::default()
    };
    let all = 0..L1::new().capacity();
    let cost = Cost::STM32L1;
    let d = Counting {
        inner: L1::new(),
        cost,
        work: Work::default(),
        comparing: false,
    };
    let mut images = Images::<_, 3>::open(d, all.clone(), 7).unwrap();
    let (mut statics, mut stack) = ([1u8; 2000], [1u8; 1000]);
    for n in 0..6u8 {
        for at in (0..3000).rev().step_by(64) {
            *statics.iter_mut().chain(&mut stack).nth(at).unwrap() = n;
        }
        let mut d = images.into_medium();
        d.comparing = false;
        images = Images::open(d, all.clone(), 7).unwrap();
        let mut d = images.into_medium();
        d.work = Work::default();
        images = Images::open(d, all.clone(), 7).unwrap();
        let opening = images.into_medium();
        let read = opening.work.read;
        images = Images::open(
            Counting {
                work: Work::default(),
                comparing: true,
                ..opening
            },
            all.clone(),
            7,
        )
        .unwrap();
        images
            .checkpoint(
                &CopyIfChange(Split),
                &Memory::new(&mut statics, &mut [], &mut stack),
                n.into(),
            )
            .unwrap();
        let mut d = images.into_medium();
        d.work.compared -= read;
        let worst = Images::<L1, 3>::worst_case::<CopyIfChange<Split>>(&most, &cost);
        assert!(within(&d.work, &worst), "{:?}, at most {worst:?}", d.work);
        if n >= 3 {
            let (seen, bound) = (cost.energy_nj(&d.work), cost.energy_nj(&worst));
            assert!(bound <= seen + seen / 10, "{seen} nJ seen, at most {bound}");
        }
        images = Images::open(d, all.clone(), 7).unwrap();
    }
}

#[test]
fn a_budget_refuses() {
    let most = Most {
        statics: 81_920,
        ..Most::default()
    };
    let worst = Images::<L1, 3>::worst_case::<Full>(&most, &Cost::STM32L1);
    let price = Cost::STM32L1.of(&worst);
    // The paper's 85.2 mJ and slightly more than 3 s, and what head, trailer and marks take.
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
    let most = Most::of(
        &Memory::new(&mut statics, &mut heap, &mut stack)
            .stack_from(3)
            .heap_used(2),
    );
    assert_eq!(
        most,
        Most {
            statics: 30,
            heap: 20,
            heap_used: 20,
            stack: 10,
            stack_used: 10
        }
    );
}
