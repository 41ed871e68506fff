//! A scenario of `nv-replay` with `nvlist`: operations on lists that take effect with the commit of
//! a step, or not at all.

use crate::{Group, Mapped, Scenario, Scene, check, ok, progress};
use nv_replay::{Commit, Committed, Config, Error, Options, Replay, last_committed};
use nvlist::{List, Lists, NodePool, StageSeq};
use nvmem::CommitNumber;

/// The scenarios of the image `replay-joined`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "replay-joined",
            primitive: "nv-replay",
            scenarios: &[Scenario::new("step_join", LISTS + 1024, step_join)],
        }
    }
}

const LISTS: usize = 256;

/// Planted bugs, as arguments in the mailbox: the list's operation is finished before the step is
/// committed; the lists are opened without asking which step was committed last.
pub(crate) const EARLY: u16 = 7;
pub(crate) const UNASKED: u16 = 8;

type Rt<'m, M> = Replay<'m, u32, M>;
type Nodes<'m, M> = NodePool<'m, u16, 2, M>;

/// A list's nodes, from the front; the lists are shorter than this.
type Row = [u16; 3];

/// After so many steps: what they have counted, and both lists.
fn after(steps: u16) -> (u32, [Row; 2]) {
    match steps {
        0 => (0, [[0; 3], [0; 3]]),
        1 => (1, [[1, 0, 0], [0; 3]]),
        2 => (3, [[1, 3, 0], [0; 3]]),
        3 => (13, [[3, 0, 0], [1, 0, 0]]),
        4 => (113, [[3, 0, 0], [0; 3]]),
        // The last one fails.
        _ => after(4),
    }
}
const STEPS: u16 = 5;

fn rows<M: Mapped>(pool: &mut Nodes<'_, M>) -> [Row; 2] {
    pool.with(|lists, all| {
        all.map(|l| {
            let mut row = [0; 3];
            for (to, v) in row.iter_mut().zip(lists.iter(l)) {
                *to = *v;
            }
            row
        })
    })
}

/// Stages with the step's number what the program does to the lists in this step, commits the step,
/// and finishes it.
fn operate<'c, 'b, M: Mapped>(
    mut lists: Lists<'b, u16, M>,
    [first, second]: [List<'b>; 2],
    (step, counted): (u16, u32),
    bug: u16,
    commit: Commit<'c, M>,
) -> Result<Committed<'c>, Error> {
    let context = lists.context(0).ok_or(Error::Aborted(2))?;
    let number: StageSeq<'b> = context
        .stage_seq(commit.number())
        .map_err(|_| Error::WrongOwner)?;
    // In the right order, or not.
    macro_rules! both {
        ($staged:expr) => {{
            let staged = $staged;
            if bug == EARLY {
                let out = staged.committed();
                (out, commit.store())
            } else {
                let done = commit.store();
                (staged.committed(), done)
            }
        }};
    }
    match step {
        1 | 2 => {
            let node = lists.alloc(counted as u16).map_err(|_| Error::Aborted(1))?;
            let ((), done) = both!(lists.stage_back(number, first, node));
            Ok(done)
        }
        3 => {
            let staged = lists.cursor_front(first).stage_shift_back(number, second);
            let ((), done) = both!(staged.ok_or(Error::Aborted(3))?);
            Ok(done)
        }
        4 => {
            let staged = lists.cursor_front(second).stage_unlink(number);
            let (node, done) = both!(staged.ok_or(Error::Aborted(4))?);
            lists.release(node);
            Ok(done)
        }
        _ => {
            let node = lists.alloc(99).map_err(|_| Error::Aborted(1))?;
            let node = lists.stage_front(number, first, node).abandon();
            lists.release(node);
            Err(Error::Aborted(7))
        }
    }
}

/// Steps that count, each with an operation: two insertions, a move from list to list, a removal;
/// and one whose operation is given up, so that the step is undone and its error recorded.
fn step_join<M: Mapped>(scene: &mut Scene<'_, M>) {
    let Ok((lists, table)) = scene.region().split_at(LISTS) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    let bug = scene.argument();
    // Before the runtime is opened, which may commit again.
    let number = ok!(scene, last_committed(&table));
    let last = if bug == UNASKED { 0 } else { number.get() };
    let resolve = |_| CommitNumber::new(number.owner(), last);
    let mut pool = ok!(scene, Nodes::<M>::open_resolved(lists, 1, resolve));
    let options = Options {
        table: Config {
            bytes: 64,
            outbox_bytes: 0,
            // Numbers come round again.
            seq_bits: 3,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    let mut rt = ok!(scene, Rt::<M>::open(table, options, |_| Ok(0)));
    // All steps that are recorded have been passed, and as many or one fewer were told of; the
    // lists say the same.
    let agree = |rt: &Rt<'_, M>, pool: &mut Nodes<'_, M>, steps: u16| {
        if rt.is_live() {
            progress!(scene, steps);
            check!(scene, rows(pool) == after(steps).1);
        }
    };
    agree(&rt, &mut pool, 0);
    for step in 1..=STEPS {
        let body = rt.step_join(
            step,
            |tx, n, step| {
                *n.get_mut(tx)? += [0, 1, 2, 10, 100, 1000][usize::from(step % 6)];
                Ok(*n.get(tx))
            },
            |counted, commit| {
                pool.with(|lists, all| operate(lists, all, (step, *counted), bug, commit))
            },
        );
        match body {
            Ok(n) => check!(scene, step != STEPS && n == after(step).0),
            Err(f) => check!(scene, step == STEPS && f.error == Error::Aborted(7)),
        }
        agree(&rt, &mut pool, step);
    }
    let n = ok!(scene, rt.step((), |tx, n, ()| Ok(*n.get(tx))));
    agree(&rt, &mut pool, STEPS + 1);
    check!(scene, (n, rows(&mut pool)) == after(STEPS));
    check!(
        scene,
        matches!(pool.audit(), Ok(a) if a.linked == 1 && a.held == 0)
    );
}
