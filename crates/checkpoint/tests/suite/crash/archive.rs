//! Named checkpoints: taken, rolled back to and deleted under power cuts.

use crate::crash::support::{PROGRAM, SmallUnits, State};
use crate::turns::in_turn;
use checkpoint::{Archive, Error, KeepLast, Landmarks, Retention, Split};
use nvmem::InOrder32;
use nvmem::device::{Medium, Torn};
use powerfail::{Explore, Mapped, Media, Simulated, SpiFram, World, explore};
use std::collections::BTreeSet;

const PLACES: usize = 4;
/// The number of steps in a run.
const STEPS: u32 = if cfg!(miri) { 4 } else { 8 };

/// The world.
#[derive(Clone, Hash, Debug, Default)]
struct Known {
    boots: u32,
    /// Operations that returned.
    steps: u32,
    /// The context of the newest checkpoint.
    newest: u32,
    /// The contexts of checkpoints begun since then. After a cut in its last words each may be
    /// found, sooner or later.
    begun: Vec<u32>,
    /// Checkpoints in the archive when an operation last returned.
    kept: usize,
    /// One of them is being deleted.
    deleting: bool,
}

/// The number of different states; a copy is not a different one.
fn kept<D: Medium, P: Retention>(a: &mut Archive<D, Split, P, PLACES>) -> usize {
    let list = a.list().expect("inside");
    let contexts: BTreeSet<_> = list.iter().flatten().map(|e| e.context).collect();
    contexts.len()
}

/// Takes [`STEPS`] steps: rolls back in the middle, and deletes near the end.
fn life<D: Medium, P: Retention>(nv: D, world: &World<'_, Known>, policy: P) {
    let (rolls_back, deletes) = (STEPS / 2, STEPS - STEPS / 4);
    let all = 0..nv.capacity();
    let mut a = Archive::<_, _, _, PLACES>::open(nv, all, PROGRAM, Split, policy).expect("room");
    world.update(|w| w.boots += 1);
    let mut state = State::garbage();
    let newest = match a.restore(&mut state.memory()) {
        Ok(r) => {
            assert_eq!(r.damaged, 0, "no power cut damages a checkpoint");
            state.check(r.context);
            r.context
        }
        Err(Error::NoImage) => 0,
        Err(e) => panic!("nothing but power cuts, and {e}"),
    };
    let w = world.get();
    assert!(
        newest == w.newest || w.begun.contains(&newest),
        "{newest:#x} is the newest, of {w:?}"
    );
    let copies = usize::from(matches!(D::CONTRACT.torn, Torn::Unstable));
    let least = w.kept.saturating_sub(1 + copies + usize::from(w.deleting));
    let now = kept(&mut a);
    assert!(now >= least, "{now} are kept, of {w:?}");
    world.update(|w| (w.newest, w.kept, w.deleting) = (newest, now, false));

    for step in world.get().steps..STEPS {
        let list = a.list().expect("inside");
        let oldest = list.iter().flatten().next_back().copied();
        match (step, oldest) {
            (_, Some(oldest)) if step == rolls_back => {
                world.update(|w| w.begun.push(oldest.context));
                match a.roll_back(oldest.sequence, &state.memory()) {
                    Ok(()) => world.update(|w| (w.newest, w.begun) = (oldest.context, vec![])),
                    // The remains of a deletion that was cut.
                    Err(Error::Damaged | Error::NoImage) if copies > 0 => {}
                    Err(e) => panic!("nothing but power cuts, and {e}"),
                }
                let r = a.restore(&mut state.memory()).expect("the newest");
                let w = world.get();
                assert!(r.context == w.newest || w.begun.contains(&r.context));
                state.check(r.context);
                world.update(|w| w.newest = r.context);
            }
            (_, Some(oldest)) if step == deletes => {
                world.update(|w| w.deleting = true);
                match a.delete(oldest.sequence) {
                    Ok(()) => {}
                    // A cut half erased it: it was listed, but cannot be read any more.
                    Err(Error::NoImage) if copies > 0 => continue,
                    Err(e) => panic!("nothing but power cuts, and {e}"),
                }
                let gone = a.list().expect("inside");
                assert!(!gone.iter().flatten().any(|e| e.sequence == oldest.sequence));
            }
            _ => {
                // Each attempt has another context.
                let context = (step + 1) | (world.get().boots << 8);
                state = State::of(context);
                world.update(|w| w.begun.push(context));
                a.checkpoint(step, &state.memory(), context)
                    .expect("nothing but power cuts");
                world.update(|w| (w.newest, w.begun) = (context, vec![]));
            }
        }
        let now = kept(&mut a);
        world.update(|w| (w.steps, w.kept, w.deleting) = (step + 1, now, false));
    }
}

fn run<M: Media>(e: Explore<M, Known>, depth: u32) {
    let s = e.depth(depth).max_depth(3).run();
    println!("{s}");
    assert!(s.partial || s.cuts > 100, "{s}");
}

#[test]
fn archive_mapped() {
    let nv = || Mapped::<InOrder32>::new(PLACES * 96);
    run(explore(nv(), |nv, w| life(nv, w, KeepLast)), 2);
    run(explore(nv(), |nv, w| life(nv, w, Landmarks(2))), 2);
}

#[test]
fn archive_serial_fram() {
    let nv = Simulated::<SpiFram>::new(PLACES * 96);
    run(explore(nv, |nv, w| life(nv, w, KeepLast)), 2);
}

/// One run in four cuts it twice: it takes longest here.
#[test]
fn archive_flash() {
    let nv = Simulated::<SmallUnits>::new(PLACES * 128);
    run(
        explore(nv, |nv, w| life(nv, w, Landmarks(2))),
        in_turn(1, 4),
    );
}
