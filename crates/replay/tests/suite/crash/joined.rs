//! A list operation and a transaction commit in one step: both or none.

use nv_replay::nvmem::{Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, Options, Replay, last_committed};
use nvlist::NodePool;
use powerfail::{Mapped, World, explore};

const LISTS: usize = 512;
const BYTES: usize = 2048;

type Rt<'m, M> = Replay<'m, u32, M>;

/// Results that the outside world has seen; they must not change.
#[derive(Default, Clone, PartialEq, Eq, Hash, Debug)]
struct WorldState {
    shown: Vec<u32>,
}

/// The contents of the two lists, from the front.
fn contents<M: Model>(pool: &mut NodePool<'_, u32, 2, M>) -> [Vec<u32>; 2] {
    pool.with(|lists, all| all.map(|l| lists.iter(l).copied().collect()))
}

fn life<M: Model>(nv: Region<'_, M>, world: &World<'_, WorldState>)
where
    M::Unit: Width,
{
    let (lists, table) = nv.split_at(LISTS).ok().unwrap();
    // The lists open first: their staged operation is finished or dropped before the runtime
    // commits anything.
    let number = last_committed(&table).expect("a table");
    let mut pool = NodePool::<u32, 2, M>::open_resolved(lists, 1, |_| number)
        .ok()
        .unwrap();
    let options = Options {
        table: Config {
            bytes: 200,
            outbox_bytes: 0,
            // Sequence numbers wrap.
            seq_bits: 4,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    let mut rt = Rt::<M>::open(table, options, |_| Ok(0)).ok().unwrap();
    for k in 1..4u32 {
        // Increments a counter, and appends its value to a list.
        let n = rt
            .step_join(
                k,
                |tx, n, k| {
                    *n.get_mut(tx)? += k;
                    Ok(*n.get(tx))
                },
                |n, commit| {
                    pool.with(|mut lists, [first, _]| {
                        let node = lists.alloc(*n).map_err(|_| Error::Aborted(1))?;
                        let context = lists.context(0).ok_or(Error::Aborted(2))?;
                        let staged = lists.stage_back(
                            context.stage_seq(commit.number()).unwrap(),
                            first,
                            node,
                        );
                        let done = commit.store();
                        staged.committed();
                        Ok(done)
                    })
                },
            )
            .map_err(Error::from)
            .unwrap();
        match world.with(|w| w.shown.get(k as usize - 1).copied()) {
            Some(seen) => assert_eq!(seen, n),
            None => world.update(|w| w.shown.push(n)),
        }
        // A step without a join, and one whose join fails: its changes are undone, its error
        // recorded.
        rt.step((), |_, _, ()| Ok(())).unwrap();
        let refused = rt.step_join(
            (),
            |tx, n, ()| {
                *n.get_mut(tx)? = 99;
                Ok(())
            },
            |(), commit| {
                pool.with(|mut lists, [first, _]| {
                    let context = lists.context(0).ok_or(Error::Aborted(2))?;
                    let node = lists.alloc(99).map_err(|_| Error::Aborted(1))?;
                    let staged =
                        lists.stage_front(context.stage_seq(commit.number()).unwrap(), first, node);
                    let node = staged.abandon();
                    lists.release(node);
                    Err(Error::Aborted(7))
                })
            },
        );
        assert_eq!(Error::from(refused.unwrap_err()), Error::Aborted(7));
    }
    // Moves one node, and counts it.
    rt.step_join(
        (),
        |tx, n, ()| {
            *n.get_mut(tx)? += 100;
            Ok(())
        },
        |(), commit| {
            pool.with(|mut lists, [first, second]| {
                let context = lists.context(0).ok_or(Error::Aborted(2))?;
                let number = context.stage_seq(commit.number()).unwrap();
                let staged = lists.cursor_front(first).stage_shift_back(number, second);
                let done = commit.store();
                if let Some(staged) = staged {
                    staged.committed();
                }
                Ok(done)
            })
        },
    )
    .unwrap();
    let n = rt.step((), |tx, n, ()| Ok(*n.get(tx))).unwrap();
    assert_eq!((n, contents(&mut pool)), (106, [vec![3, 6], vec![1]]));
    let audit = pool.audit().unwrap();
    assert_eq!(audit.linked, 3, "{audit:?}");
}

fn run<M: Model>()
where
    M::Unit: Width,
{
    let s = explore(Mapped::<M>::new(BYTES), |nv, world| life::<M>(nv, world))
        .world(WorldState::default())
        .depth(2)
        .run();
    println!("{}: {s}", M::NAME);
    assert!(s.partial || s.boots > 100, "{s}");
}

on_each_medium!(run: buffered_32);
