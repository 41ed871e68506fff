//! Cuts the power in programs that take checkpoints, in each mode and on each kind of medium: at
//! every instant that matters, and again in the boot after. Lines `key value`.

// What the crate's own suite cuts.
#[path = "../../../../crates/checkpoint/tests/suite/support/counting.rs"]
mod counting;
#[path = "../../../../crates/checkpoint/tests/suite/crash/logged.rs"]
mod logged;
#[path = "../../../../crates/checkpoint/tests/suite/support/nor.rs"]
mod nor;
#[allow(dead_code)]
#[path = "../../../../crates/checkpoint/tests/suite/crash/support.rs"]
mod support;

use checkpoint::nvmem::device::Medium;
use checkpoint::nvmem::{Buffered32, InOrder32};
use checkpoint::{Blocks, Bounded, CopyIfChange, Full, HeapTracker, Split, Stack};
use logged::{HalfPages, LargeUnits};
use powerfail::{
    Explore, Failure, Mapped, Media, Mram16, Simulated, SpiFram, Stm32l1HalfPage, Summary, World,
    explore,
};
use support::{Promise, SmallUnits};

/// All of the heap.
const HEAP: usize = 6;

/// A heap whose blocks are all in use, or none: then of its bytes those that are not zero are
/// saved, which is all that there is to restore, too.
struct All(bool);
impl Blocks for All {
    fn in_use(&self, _: u32) -> bool {
        self.0
    }
}

/// Checkpoints up to the `last` one; `heap` bytes of the heap come back.
fn life<D: Medium, M: Bounded, const N: usize>(
    nv: D,
    world: &World<'_, Promise>,
    mode: &M,
    heap: usize,
    last: u32,
) {
    support::lives::<_, _, N>(nv, world, mode, last, 0, heap);
}

type Found = Result<Summary, Failure>;

fn run<M: Media>(name: &'static str, e: Explore<M, Promise>) -> Found {
    let found = e.name(name).depth(2).threads(2).try_run();
    match &found {
        Ok(s) => eprintln!("{name}: {} cuts, {} boots", s.cuts, s.boots),
        Err(f) => eprintln!("{}", f.report()),
    }
    found
}

static IN_USE: All = All(true);
static FREE: All = All(false);

/// Each mode on one kind of medium, in `N` slots, up to the `LAST` checkpoint.
fn modes<M: Media, const N: usize, const LAST: u32>(
    out: &mut Vec<Found>,
    name: &'static str,
    blank: impl Fn() -> M,
) where
    for<'r> M::Nv<'r>: Medium,
{
    out.push(run(
        name,
        explore(blank(), |nv, w| life::<_, _, N>(nv, w, &Full, HEAP, LAST)),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| life::<_, _, N>(nv, w, &Stack, 0, LAST)),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| life::<_, _, N>(nv, w, &Split, 4, LAST)),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| {
            life::<_, _, N>(nv, w, &HeapTracker(&IN_USE), HEAP, LAST)
        }),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| {
            life::<_, _, N>(nv, w, &HeapTracker(&FREE), HEAP, LAST)
        }),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| {
            life::<_, _, N>(nv, w, &CopyIfChange(Split), 4, LAST)
        }),
    ));
}

/// The log, the mode Adaptive, on each kind of medium.
fn log(out: &mut Vec<Found>) {
    let mapped = Mapped::<InOrder32>::new(1024);
    let e = explore(mapped, |nv, w| logged::life::<_, 32>(nv, w, 4));
    out.push(run("log, mapped", e));
    let fram = Simulated::<SpiFram>::new(1024);
    let e = explore(fram, |nv, w| logged::life::<_, 32>(nv, w, 3));
    out.push(run("log, serial FRAM", e));
    let mram = Simulated::<Mram16>::new(1024);
    let e = explore(mram, |nv, w| logged::life::<_, 32>(nv, w, 4));
    out.push(run("log, MRAM", e));
    let flash = Simulated::<HalfPages>::new(18 * 256);
    let e = explore(flash, |nv, w| logged::life::<_, 128>(nv, w, 4));
    out.push(run("log, flash, half pages", e));
    let flash = Simulated::<LargeUnits>::new(8 * 1024);
    let e = explore(flash, |nv, w| logged::life::<_, 64>(nv, w, 3));
    out.push(run("log, flash, large units", e));
    // Of the states of a cut a sample.
    let buffered = Mapped::<Buffered32>::new(1024);
    let e = explore(buffered, |nv, w| logged::life::<_, 32>(nv, w, 2));
    out.push(run("log, buffered", e.limit(4)));
}

fn main() {
    let mut all = Vec::new();
    modes::<_, 2, 3>(&mut all, "mapped", || Mapped::<InOrder32>::new(192));
    modes::<_, 2, 2>(&mut all, "serial FRAM", || Simulated::<SpiFram>::new(192));
    modes::<_, 2, 2>(&mut all, "MRAM", || Simulated::<Mram16>::new(192));
    modes::<_, 3, 2>(&mut all, "flash, several units", || {
        Simulated::<SmallUnits>::new(3 * 128)
    });
    modes::<_, 3, 2>(&mut all, "flash, half pages", || {
        Simulated::<Stm32l1HalfPage>::new(3 * 512)
    });
    // Any part of what was written may be there: many states for each cut.
    let buffered = || Mapped::<Buffered32>::new(192);
    all.push(run(
        "buffered",
        explore(buffered(), |nv, w| life::<_, _, 2>(nv, w, &Split, 4, 2)),
    ));
    log(&mut all);
    let mut sum = Summary::default();
    let mut failures = 0;
    for found in all {
        match found {
            Ok(s) => sum = sum + s,
            Err(_) => failures += 1,
        }
    }
    println!("checkpoint.cuts {}", sum.cuts);
    println!("checkpoint.boots {}", sum.boots);
    println!("checkpoint.failures {failures}");
}
