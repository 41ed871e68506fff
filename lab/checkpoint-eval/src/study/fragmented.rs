//! Figures 12 to 14: items of a routing table, a link estimator and a log come and go, the heap
//! only grows.

use crate::flash::{M0, M3, Part};
use crate::grids::mixed;
use crate::program::Program;
use crate::run::{Layout, Mode, Scenario, each};
use crate::say::{Figures, Series};
use checkpoint::Work;

/// How many items, and their bytes: an entry of CTP's routing table, one of the link estimator, a
/// record of a log.
const ITEMS: [(usize, usize); 3] = [(20, 8), (20, 12), (16, 64)];
/// Where the heap ends.
const SPAN: usize = 8192;

/// At each step one item is freed, and another one of its size is allocated behind all others: what
/// is allocated stays the same, the span grows.
struct Growing;
impl Scenario for Growing {
    fn start(&self, p: &mut Program) {
        let most = ITEMS.iter().map(|i| i.0).max().unwrap_or(0);
        for k in 0..most {
            for (n, size) in ITEMS {
                if k < n {
                    p.alloc(p.heap_used(), size, k as u8);
                }
            }
        }
    }
    fn used(&self, p: &Program) -> usize {
        p.statics.len() + SPAN + p.stack_used
    }
    fn step(&self, p: &mut Program, round: u32) {
        let live: Vec<_> = p.live().collect();
        let (at, len) = live[mixed(round, 99) as usize % live.len()];
        p.free(at);
        p.alloc(p.heap_used(), len, round as u8);
    }
}

const MODES: [Mode; 4] = [
    Mode::Full,
    Mode::Split,
    Mode::HeapTracker,
    Mode::CopyIfChange,
];

pub fn all(f: &mut Figures) {
    grid::<M3>(f, "fig13_m3");
    grid::<M0>(f, "fig13_m0");
}

fn grid<P: Part>(f: &mut Figures, name: &str) {
    // Where and how the heap is at each step.
    let mut p = Program::new(P::RAM, 0, crate::program::STACK);
    Growing.start(&mut p);
    let occupation = p.occupation();
    let mut shape = Vec::new();
    for round in 0.. {
        Growing.step(&mut p, round);
        assert_eq!(p.occupation(), occupation, "constant");
        if p.heap_used() > SPAN {
            break;
        }
        shape.push((p.heap_used() as u32, p.fragmentation()));
    }
    let mut all = Vec::new();
    for layout in [Layout::Crate, Layout::Paper] {
        let in_log = Mode::LOG.iter().filter(|_| layout == Layout::Crate);
        for mode in MODES.iter().chain(in_log).copied() {
            let works = each::<P>(layout, mode, &Growing, shape.len() as u32);
            // The first one is another thing: all is new.
            let points = shape.iter().map(|s| s.0).zip(works).skip(1).collect();
            all.push(Series {
                mode,
                layout,
                points,
                rounds: 1,
            });
        }
    }
    let drawn: Vec<u32> = shape.iter().skip(4).step_by(12).map(|s| s.0).collect();
    f.series::<P>(name, &all, |x| drawn.contains(&x));
    // Of one checkpoint each: what the log cleans up now and then is in the sum only.
    let sum = |s: &Series| Series {
        points: vec![(
            0,
            s.points.iter().fold(Work::default(), |sum, p| sum.and(p.1)),
        )],
        rounds: s.points.len() as u32,
        ..s.clone()
    };
    f.worst::<P>(name, &all.iter().map(sum).collect::<Vec<_>>());
    for (span, fragmentation) in shape.iter().filter(|s| drawn.contains(&s.0)) {
        f.say(format!("fig12.at_{span}.fragmentation"), *fragmentation);
    }
    f.say("fig12.occupation", occupation as f64);
    let turns = |mode| {
        let found = all
            .iter()
            .find(|s: &&Series| s.mode == mode && s.layout == Layout::Paper);
        let e: Vec<f64> = found
            .expect("it was measured")
            .energy(&P::COST)
            .iter()
            .map(|p| p.1)
            .collect();
        let ups: Vec<bool> = e
            .windows(2)
            .filter(|w| w[0] != w[1])
            .map(|w| w[1] > w[0])
            .collect();
        ups.windows(2).filter(|w| w[0] != w[1]).count() as f64
    };
    f.say(
        format!("{name}_turns_copy_if_change"),
        turns(Mode::CopyIfChange),
    );
    f.say(format!("{name}_turns_split"), turns(Mode::Split));
}
