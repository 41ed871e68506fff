//! There is always free space, and wear is spread.

use super::{HEAP_USED, L1, State, open};
use checkpoint::{Log, Memory, Store};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamNor};
use proptest::prelude::*;

#[test]
#[cfg_attr(miri, ignore = "10,000 checkpoints")]
fn wear_is_spread() {
    let mut d = L1::new();
    {
        let mut log = open(&mut d);
        for n in 0..10_000 {
            if n % 100 == 0 {
                log.load(&mut State::filled(0).memory(HEAP_USED)).ok();
            }
            log.save(&State::nth(n).memory(HEAP_USED), n).unwrap();
        }
    }
    let (anchors, units) = d.wear().split_at(8);
    let worst = |w: &[u32]| *w.iter().max().unwrap();
    // Two records fill an anchor, and there are eight.
    assert!(worst(anchors) < 10_000 / 16 + 100, "{anchors:?}");
    // About 5 of 8 cells each time, two in a unit, 52 units.
    assert!(worst(units) < 10_000 * 3 / 40, "{units:?}");
    assert!(
        worst(units) < 2 * units.iter().min().unwrap() + 100,
        "{units:?}"
    );
}

/// Cells of 32 bytes, every other one zero: the longest manifests.
#[test]
fn every_other_cell_is_zero() {
    fn run<D: Medium>(d: D) {
        let name = D::CONTRACT.name;
        let all = 0..d.capacity();
        let mut log = Log::<_, 270, 900, 32>::open(d, all, 1).unwrap_or_else(|e| panic!("{e}"));
        let mut statics = [0; 270 * 32];
        for n in 0..if cfg!(miri) { 5 } else { 40 } {
            for (i, cell) in statics.chunks_mut(32).enumerate() {
                cell.fill(if (i + n / 2).is_multiple_of(2) {
                    n as u8 + 1
                } else {
                    0
                });
            }
            let taken = log.save(&Memory::new(&mut statics, &mut [], &mut []), n as u32);
            taken.unwrap_or_else(|e| panic!("{name} {n}: {e}"));
            let mut found = [0xA5; 270 * 32];
            let mut memory = Memory::new(&mut found, &mut [], &mut []);
            let r = log
                .load(&mut memory)
                .unwrap_or_else(|e| panic!("{name} {n}: {e}"));
            assert_eq!(r.context, n as u32);
            assert!(found == statics, "{name} {n}");
        }
    }
    const USED: u32 = 135 * 32;
    type Nor = RamNor<36, 1024, 4>;
    assert!(Log::<Nor, 270, 900, 32>::bytes(USED) <= 36 * 1024);
    run(Nor::new());
    assert!(Log::<RamFram<36_864>, 270, 900, 32>::bytes(USED) <= 36_864);
    run(RamFram::<36_864>::filled(0));
}

/// What a program does between two checkpoints.
#[derive(Clone, Debug)]
pub struct Step {
    heap_used: usize,
    stack_from: usize,
    /// Cells of 32 bytes: which, how many, and what they get.
    cells: Vec<(usize, usize, u8)>,
    /// The power is cut first.
    reboot: bool,
}

pub fn step() -> impl Strategy<Value = Step> {
    let cells = (0..40usize, 1..40usize, prop_oneof![Just(0), any::<u8>()]);
    let cells = prop::collection::vec(cells, 0..6);
    let step = (0..=500usize, 0..=200usize, cells, any::<bool>());
    step.prop_map(|(heap_used, stack_from, cells, reboot)| Step {
        heap_used,
        stack_from,
        cells,
        reboot,
    })
}

/// A log with exactly the bytes that it requires, under any program.
pub fn always_room<D: Medium>(d: D, steps: &[Step]) {
    let (mut statics, mut heap, mut stack) = ([1; 300], [2; 500], [3; 200]);
    // All memory may be in use, with three partial cells.
    let needed = Log::<D, 34, 200, 32>::bytes(1000);
    assert!(needed <= d.capacity(), "{}: {needed}", D::CONTRACT.name);
    let open = |d| Log::<_, 34, 200, 32>::open(d, 0..needed, 1).unwrap_or_else(|e| panic!("{e}"));
    let mut log = open(d);
    for (n, s) in steps
        .iter()
        .cycle()
        .take(if cfg!(miri) { 4 } else { 60 })
        .enumerate()
    {
        let mut memory = Memory::new(&mut statics, &mut heap, &mut stack);
        if s.reboot {
            log = open(log.into_medium());
            log.load(&mut memory).ok();
        }
        for (at, len, byte) in &s.cells {
            let all = statics
                .chunks_mut(32)
                .chain(heap.chunks_mut(32))
                .chain(stack.chunks_mut(32));
            for (i, cell) in all.skip(*at).take(*len).enumerate() {
                cell.fill(if i % 3 == 2 { 0 } else { *byte });
            }
        }
        let memory = Memory::new(&mut statics, &mut heap, &mut stack);
        let memory = memory.heap_used(s.heap_used).stack_from(s.stack_from);
        let taken = log.save(&memory, n as u32);
        taken.unwrap_or_else(|e| panic!("{} {n}: {e}", D::CONTRACT.name));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 })
    })]
    #[test]
    fn what_it_says_is_enough(steps in prop::collection::vec(step(), 1..20)) {
        always_room(RamNor::<60, 256, 32>::new(), &steps);
        always_room(RamNor::<30, 512, 4>::new(), &steps);
        always_room(RamNor::<12, 2048, 4>::new(), &steps);
        always_room(RamFram::<8000>::filled(0), &steps);
    }
}
