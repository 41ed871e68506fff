//! Steps that others take part in: a kernel whose counters are raised with a step or not at all,
//! and joins. The fixture is `crate::crash::kernel`.
//!
//! The root counts what all counters were raised by. So whenever the program has passed its
//! records, the counters and the root say the same; and what each operation returns is known.

use super::drivers::{RAN, is_recorded, runs};
use crate::crash::kernel::{BYTES, Kernel, WIDTHS, WORDS};
use crate::runs::{programs, seed};
use nv_replay::nvmem::{InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, Options, Replay, Token, last_committed};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;
use std::cell::Cell;

/// Each ends with a step that raises a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Raise(u8),
    /// A step with the token that wants nothing of it.
    Quiet,
    /// A step that wants something, and aborts.
    Fail,
    /// A step whose join is refused.
    Refused,
    /// A join by a closure.
    Join,
    /// A loop of one step; each turn raises a counter.
    Turns(u8),
}

/// An opening of the runtime.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// The program is given up before this operation.
    ops: u8,
    /// The turn that fails.
    fails: u8,
    /// At the end a join forgets its commit.
    forgets: bool,
}

type Script = (Vec<Op>, Vec<Opening>);

#[derive(Clone, Hash, Debug, Default)]
struct Outside {
    openings: usize,
    /// So many operations have returned.
    returned: usize,
}

type Rt<'m, M> = Replay<'m, u32, M>;

std::thread_local! {
    static FAILS: Cell<u32> = const { Cell::new(0) };
}

fn raise<M: Model>(rt: &mut Rt<'_, M>, kernel: &Kernel<'_, M>, index: u8) -> Result<u32, Error>
where
    M::Unit: Width,
{
    Ok(rt.step_with(kernel, u32::from(index), |step, n, index| {
        runs(0);
        *n.get_mut(step)? += 1;
        Kernel::raise(step, index as usize % WORDS, 1);
        Ok(*n.get(step))
    })?)
}

/// What an operation adds to the root.
fn adds(op: Op) -> u32 {
    match op {
        Op::Raise(_) | Op::Quiet | Op::Fail | Op::Refused => 1,
        Op::Join => 2,
        Op::Turns(n) => u32::from(n) + 1,
    }
}

fn call<M: Model>(
    rt: &mut Rt<'_, M>,
    kernel: &Kernel<'_, M>,
    (k, op): (usize, Op),
) -> Result<u32, Error>
where
    M::Unit: Width,
{
    let name = k as u32;
    match op {
        Op::Raise(_) => {}
        Op::Quiet => rt.named(name).step_with(kernel, (), |_, _, ()| Ok(()))?,
        Op::Fail => {
            let failed = rt.named(name).step_with(kernel, (), |step, n, ()| {
                *n.get_mut(step)? = 99;
                Kernel::raise(step, 0, 5);
                Err::<(), _>(step.abort(7))
            });
            is_recorded(failed.map_err(Error::from), 7)?;
            // What the body wanted is forgotten, also if nobody wants something else.
            let next = rt.named(name + 100);
            next.step_with(kernel, (), |_, _, ()| Ok(()))?;
        }
        Op::Refused => {
            // A record that is left was refused already.
            kernel.refuses.set(rt.is_live());
            let refused = rt.named(name).step_with(kernel, (), |step, n, ()| {
                *n.get_mut(step)? = 98;
                Kernel::raise(step, 0, 6);
                Ok(())
            });
            kernel.refuses.set(false);
            is_recorded(refused.map_err(Error::from), 8)?;
        }
        Op::Join => {
            rt.named(name).step_join(
                (),
                |tx, n, ()| {
                    runs(0);
                    *n.get_mut(tx)? += 1;
                    Ok(*n.get(tx))
                },
                |_, commit| {
                    kernel.wants(1, 1);
                    kernel.join(commit)
                },
            )?;
        }
        Op::Turns(n) => {
            rt.named(name)
                .each_step_with(kernel, 0..n.into(), (), |step, n, i, ()| {
                    if i == FAILS.get() {
                        *n.get_mut(step)? = 97;
                        Kernel::raise(step, 0, 7);
                        return Err(step.abort(6));
                    }
                    runs(i);
                    *n.get_mut(step)? += 1;
                    Kernel::raise(step, i as usize % WORDS, 1);
                    Ok(())
                })?;
        }
    }
    let index = match op {
        Op::Raise(index) => index,
        _ => 0,
    };
    raise(rt, kernel, index)
}

fn agree<M: Model>(rt: &mut Rt<'_, M>, kernel: &Kernel<'_, M>)
where
    M::Unit: Width,
{
    if let Some(n) = rt.view(|tx, n| *n.get(tx)).expect("it runs") {
        assert_eq!(kernel.sum(), n, "the counters, and the root");
    }
}

/// One opening. Whether the program has ended.
fn opening<'m, M: Model>(
    rt: &mut Rt<'m, M>,
    kernel: &Kernel<'_, M>,
    world: &World<'_, Outside>,
    ops: &[Op],
    opening: Opening,
) -> bool
where
    M::Unit: Width,
{
    FAILS.set(opening.fails.into());
    agree(rt, kernel);
    let mut n = 0;
    let until = ops.len().min(opening.ops.into());
    for (k, op) in ops[..until].iter().enumerate() {
        RAN.take();
        match call(rt, kernel, (k, *op)) {
            Ok(got) => {
                n += adds(*op);
                assert_eq!(got, n, "{op:?}");
            }
            // The runtime has stopped.
            Err(Error::Aborted(6)) => {
                assert_eq!(rt.record(1_u8), Err(Error::LoopInterrupted));
                return false;
            }
            Err(e) => panic!("{op:?}: {e}"),
        }
        agree(rt, kernel);
        let returned = world.with(|w| w.returned);
        assert!(RAN.take().is_none() || k >= returned, "{op:?} runs again");
        if k >= returned {
            world.update(|w| w.returned = k + 1);
        }
    }
    if until < ops.len() && opening.forgets && rt.is_live() {
        let forgot = rt.named("forgets").step_join(
            (),
            |tx, n, ()| {
                *n.get_mut(tx)? = 96;
                Ok(())
            },
            |(), commit| {
                std::mem::forget(commit);
                Err(Error::Aborted(5))
            },
        );
        assert_eq!(forgot.map_err(Error::from), Err(Error::Other));
        let next = rt.named("next").step((), |_, _, ()| Ok(()));
        assert_eq!(next.map_err(Error::from), Err(Error::Other));
    }
    until == ops.len()
}

fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, Outside>, (ops, openings): &Script)
where
    M::Unit: Width,
{
    let (words, mut table) = nv.split_at(BYTES).expect("it has both");
    let mut words = Some(words);
    loop {
        let none = Opening {
            ops: 99,
            fails: 99,
            forgets: false,
        };
        let next = openings.get(world.with(|w| w.openings));
        world.update(|w| w.openings += 1);
        let number = last_committed(&table).expect("a table");
        let kernel = Kernel::recover(words.take().expect("given back"), number);
        let options = Options {
            table: Config {
                bytes: 400,
                outbox_bytes: 0,
                seq_bits: WIDTHS.sequence,
            },
            pool: Some(pmem_tx::Config::SMALL),
            ..Options::default()
        };
        let opened = Rt::<M>::open(table, options, |_| Ok(0));
        let mut rt = opened.unwrap_or_else(|r| panic!("{r}"));
        if opening(&mut rt, &kernel, world, ops, *next.unwrap_or(&none)) {
            return;
        }
        table = rt.close();
        words = Some(kernel.close());
    }
}

fn scripts() -> impl Strategy<Value = Script> {
    let op = prop_oneof![
        2 => (0..3_u8).prop_map(Op::Raise),
        2 => Just(Op::Quiet),
        2 => Just(Op::Fail),
        2 => Just(Op::Refused),
        1 => Just(Op::Join),
        2 => (0..5_u8).prop_map(Op::Turns),
    ];
    let opening = (0..6_u8, 0..6_u8, any::<bool>()).prop_map(|(ops, fails, forgets)| Opening {
        ops,
        fails,
        forgets,
    });
    (
        prop::collection::vec(op, 1..7),
        prop::collection::vec(opening, 0..4),
    )
}

#[test]
fn partners() {
    let media = || Mapped::<InOrder32>::new(2048);
    let s = random(scripts(), media, boot::<InOrder32>);
    let s = s.cases(programs(100)).seed(seed()).run();
    println!("{s}");
}
