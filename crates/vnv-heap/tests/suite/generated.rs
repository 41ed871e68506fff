//! Generated programs on a heap whose medium fails at any operation while the program goes on: it
//! opens the heap again, in the same boot.
//!
//! The judge: what the last commit or persist held is there, or what one holds that was begun
//! since. A heap that persists just in time may say that it was interrupted, once something has
//! changed.

use crate::crash::random::{as_fits, config, op};
use crate::crash::support::{Op, RAM, Save, TestHeap, model, run, top, view};
use crate::faulty::{Control, Failed, Fault, Faulty, Part};
use crate::runs::{programs, seed};
use nvmem::{Buffered32, Medium, Trusted};
use powerfail::{Mapped, Media, Simulated, SpiFram, World, explore_with, random};
use proptest::prelude::*;
use std::fmt;
use vnv_heap::{Error, JustInTime, OpenError, Snapshot, brand};

#[derive(Clone, PartialEq)]
struct Script {
    wide: bool,
    /// Each operation is saved. What it and the save meet, at the first attempt.
    ops: Vec<(Op, Fault)>,
}

/// As a value to paste.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Script {{ wide: {}, ops: vec!{:?} }}",
            self.wide, self.ops
        )
    }
}

fn scripts(most: usize) -> impl Strategy<Value = Script> {
    let part = prop_oneof![Just(Part::Nothing), Just(Part::Half), Just(Part::All)];
    let fault = prop_oneof![
        2 => Just(Fault::None),
        2 => (0..30_u8, part).prop_map(|(n, part)| Fault::Change(n, part)),
        1 => (0..40_u8).prop_map(Fault::Read),
    ];
    let ops = prop::collection::vec(op(), 1..=most).prop_map(as_fits);
    let faults = prop::collection::vec(fault, most);
    (any::<bool>(), ops, faults).prop_map(|(wide, ops, faults)| Script {
        wide,
        ops: ops.into_iter().zip(faults).collect(),
    })
}

/// What the world knows.
#[derive(Clone, Hash, Debug, Default)]
struct Known {
    /// Operations that were saved.
    saved: usize,
    /// The next one was begun.
    begun: bool,
    /// Faults that have come.
    faults: usize,
}

/// One boot of a script.
fn boot<P: Save, D: Medium>(nv: D, world: &World<'_, Known>, script: &Script) {
    let control = Control::new();
    let mut nv = Faulty::new(nv, &control);
    let mut format = false;
    loop {
        control.meets(Fault::None);
        // SAFETY: the medium inside of it is a simulated one, which returns what was written.
        let nv = unsafe { Trusted::new(&mut nv) };
        let mut ram = [0xA5; RAM];
        brand!(b);
        let heap = match format {
            true => TestHeap::<_, P>::format(b, nv, &mut ram, config(script.wide), top),
            false => TestHeap::<_, P>::open(b, nv, &mut ram, config(script.wide), top),
        };
        let mut heap = match heap {
            Ok(heap) => heap,
            Err(OpenError::Interrupted) if !P::SNAPSHOT => {
                assert!(world.with(|w| w.begun), "nothing was begun");
                world.set(Known {
                    saved: 0,
                    begun: true,
                    ..world.get()
                });
                format = true;
                continue;
            }
            Err(e) => panic!("open: {e}"),
        };
        let (done, seen) = view(&heap).expect("no fault");
        let (done, known) = (done as usize, world.get());
        let saved = known.begun && (done == known.saved + 1 || format);
        assert!(done == known.saved || saved, "{done} found, {known:?}");
        let all: Vec<Op> = script.ops.iter().map(|(op, _)| *op).collect();
        assert_eq!(seen, model(&all[..done]), "after {done}");
        format = false;
        // What was read stays.
        world.set(Known {
            saved: done,
            begun: false,
            ..known
        });
        let mut failed = false;
        for (i, (op, fault)) in script.ops.iter().enumerate().skip(done) {
            let known = world.get();
            let meets = if i < known.faults {
                Fault::None
            } else {
                *fault
            };
            world.set(Known {
                begun: true,
                faults: known.faults.max(i + 1),
                ..known
            });
            control.meets(meets);
            match run(&heap, *op).and_then(|()| P::save(&mut heap)) {
                Ok(()) => world.update(|w| (w.saved, w.begun) = (i + 1, false)),
                Err(Error::Medium(Failed)) if control.has_failed() => {
                    failed = true;
                    break;
                }
                Err(e) => panic!("{op:?}: {e}"),
            }
        }
        if !failed {
            return;
        }
    }
}

fn campaign<P: Save, M: Media>(media: fn() -> M, most: usize, cases: u32)
where
    for<'r> M::Nv<'r>: Medium,
{
    let s = random(scripts(most), media, |nv, w: &World<'_, Known>, script| {
        boot::<P, _>(nv, w, script)
    })
    .cases(programs(cases))
    .seed(seed())
    .run();
    println!("{s}");
}

#[test]
fn snapshots_on_fram() {
    campaign::<Snapshot, _>(|| Simulated::<SpiFram>::new(700), 6, 60);
}

#[test]
fn snapshots_behind_a_buffer() {
    campaign::<Snapshot, _>(|| Mapped::<Buffered32>::new(704), 4, 6);
}

#[test]
fn just_in_time_on_fram() {
    campaign::<JustInTime, _>(|| Simulated::<SpiFram>::new(700), 6, 60);
}

#[test]
fn just_in_time_behind_a_buffer() {
    campaign::<JustInTime, _>(|| Mapped::<Buffered32>::new(704), 4, 12);
}

/// The third commit fails at a flush. The open that follows took it for durable, and freed blocks
/// of the commit before: a cut left that one, with a damaged object.
#[test]
fn an_open_after_a_flush_that_failed() {
    let fails = Fault::Change(12, Part::Nothing);
    let none = Fault::None;
    let script = Script {
        wide: false,
        ops: vec![(Op::Pop, none), (Op::Push(1), none), (Op::Clear, fails)],
    };
    let nv = Mapped::<Buffered32>::new(704);
    explore_with(script, nv, |nv, w: &World<'_, Known>, script| {
        boot::<Snapshot, _>(nv, w, script)
    })
    .run();
}
