//! No checkpoint and no restore costs more than its bound, and the worst costs nearly as much:
//! counted by the medium.

use super::PROGRAM;
use crate::support::counting::{Counting, counted, within};
use checkpoint::{Cost, Log, Maxima, Memory, Store, Work};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamMram, RamNor};
use proptest::prelude::*;
use std::cell::Cell;

#[derive(Debug, Clone)]
struct Step {
    reboot: bool,
    heap_used: usize,
    stack_used: usize,
    /// Bit patterns: which cells are zero, and which change.
    zeros: u64,
    changes: u64,
}

const CELLS: usize = 70;
type TheLog<D, const CELL: usize> = Log<D, CELLS, 200, CELL>;

/// The most expensive checkpoint and restore, in thousandths of their bounds.
fn dearest<D: Medium, const CELL: usize>(d: D, cost: Cost, steps: &[Step]) -> [u64; 2] {
    let name = D::CONTRACT.name;
    let (mut statics, mut heap, mut stack) = (vec![1; 700], vec![2; 900], vec![3; 500]);
    let most = Maxima {
        statics: 700,
        heap: 900,
        heap_used: steps.iter().map(|s| s.heap_used).max().unwrap_or(0) as u32,
        stack: 500,
        stack_used: steps.iter().map(|s| s.stack_used).max().unwrap_or(0) as u32,
    };
    let bounds = [
        TheLog::<D, CELL>::worst_case(&most, &cost),
        TheLog::<D, CELL>::worst_restore(&most, &cost),
    ];
    let bounds = bounds.map(counted);
    let used = most.statics + most.heap_used + most.stack_used;
    let all = 0..TheLog::<D, CELL>::bytes(used);
    assert!(all.end <= d.capacity(), "{name}: {} bytes", all.end);
    let work = Cell::new(Work::default());
    let mut parts = [0; 2];
    let mut note = |which: usize| {
        let (seen, worst) = (work.replace(Work::default()), bounds[which]);
        assert!(
            within(&seen, &worst),
            "{name} {which}: {seen:?}, at most {worst:?}"
        );
        let part = 1000 * cost.energy_nj(&seen) / cost.energy_nj(&worst);
        parts[which] = part.max(parts[which]);
    };
    let inner = Counting {
        inner: d,
        cost,
        work: &work,
    };
    let open = |d| {
        TheLog::<_, CELL>::open(d, all.clone(), PROGRAM).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let mut log = open(inner);
    for (n, s) in steps.iter().enumerate() {
        if s.reboot || n == 0 {
            log = open(log.into_medium());
            let r = log.load(&mut Memory::new(&mut statics, &mut heap, &mut stack));
            assert!(r.is_ok() || n == 0, "{name}");
            note(1);
        }
        let all = statics.chunks_mut(CELL).chain(heap.chunks_mut(CELL));
        for (i, cell) in all.chain(stack.chunks_mut(CELL)).enumerate() {
            let same = cell[0];
            if s.zeros >> (i % 64) & 1 != 0 {
                cell.fill(0);
            } else if s.changes >> (i % 64) & 1 != 0 || same == 0 {
                cell.fill(same | 1);
                cell[cell.len() - 1] = n as u8 | 2;
            }
        }
        let memory = Memory::new(&mut statics, &mut heap, &mut stack)
            .heap_used(s.heap_used)
            .stack_from(500 - s.stack_used);
        let taken = log.save(&memory, n as u32);
        taken.unwrap_or_else(|e| panic!("{name} {n}: {e}"));
        note(0);
    }
    parts
}

type L1 = RamNor<100, 256, 128, 0x00>;
type F0 = RamNor<13, 2048, 4>;
type Serial = RamNor<12, 4096, 1>;

fn media(steps: &[Step]) -> [[u64; 2]; 6] {
    let mram = Cost {
        operation: 16,
        ..Cost::SPI_FRAM
    };
    [
        dearest::<_, 128>(L1::new(), Cost::STM32L1, steps),
        dearest::<_, 128>(F0::new(), Cost::STM32F0, steps),
        dearest::<_, 32>(F0::new(), Cost::STM32F0, steps),
        dearest::<_, 256>(Serial::new(), Cost::SPI_NOR, steps),
        dearest::<_, 64>(RamFram::<24_000>::filled(0), Cost::SPI_FRAM, steps),
        dearest::<_, 64>(RamMram::<24_000>::filled(0), mram, steps),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let bits = || prop_oneof![Just(0), any::<u64>(), Just(0xAAAA_AAAA_AAAA_AAAA)];
    let step = (any::<bool>(), 0..=900usize, 1..=500usize, bits(), bits());
    step.prop_map(|(reboot, heap_used, stack_used, zeros, changes)| Step {
        reboot,
        heap_used,
        stack_used,
        zeros,
        changes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of checkpoints on six media")]
    fn nothing_takes_more_than_the_worst_case(steps in prop::collection::vec(step(), 1..60)) {
        media(&steps);
    }
}

/// A program that changes everything at each checkpoint, and boots often.
#[test]
#[cfg_attr(miri, ignore = "hundreds of checkpoints on six media")]
fn the_worst_case_is_near() {
    let steps: Vec<_> = (0..80)
        .map(|n| Step {
            reboot: n % 3 != 0,
            heap_used: 900,
            stack_used: 487,
            zeros: if n % 7 == 6 { 0xAAAA_AAAA_AAAA_AAAA } else { 0 },
            changes: if n % 5 == 4 {
                0x1111_1111_1111_1111
            } else {
                u64::MAX
            },
        })
        .collect();
    let seen = media(&steps);
    println!("{seen:?}");
    for [checkpoint, restore] in seen {
        assert!(checkpoint > 650 && restore > 350, "{seen:?}");
    }
}
