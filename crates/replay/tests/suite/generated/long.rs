//! Long loops, whose counters carry from the start word to the upper counters: on 16-bit units
//! every 64 iterations. Each opening but the last leaves the loop by an error, in any iteration.
//!
//! An iteration runs once, and all before it have run: the root counts them. In uneven loops, whose
//! iterations leave stale headers in all distances, it counts steps and turns.

use crate::runs::{programs, seed};
use nv_replay::nvmem::{InOrder16, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, Options, Replay, Root, Step};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;
use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Each,
    Forever,
    Turns,
    ForeverTurns,
    /// An iteration has some steps, and then a loop of one step or none.
    Uneven,
}

#[derive(Clone, Debug)]
struct Script {
    kind: Kind,
    bits: u8,
    count: u32,
    /// The iterations in which openings leave the loop.
    stops: Vec<u32>,
}

std::thread_local! {
    static STOP: Cell<u32> = const { Cell::new(0) };
}

const LEFT: Error = Error::Aborted(4);

fn counts<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    n: &mut Root<'p, u32, M::Unit>,
    i: u32,
) -> Result<(), pmem_tx::Error>
where
    M::Unit: Width,
{
    let n = n.get_mut(tx)?;
    assert_eq!(*n, i, "iterations before this one");
    *n += 1;
    Ok(())
}

fn turn<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    n: &mut Root<'p, u32, M::Unit>,
    i: u32,
    (): (),
) -> Result<(), pmem_tx::Error>
where
    M::Unit: Width,
{
    if i == STOP.get() {
        return Err(tx.abort(4));
    }
    counts(tx, n, i)
}

type Rt<'m, M> = Replay<'m, u32, M>;

fn iteration<M: Model>(rt: &mut Rt<'_, M>, i: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    if i == STOP.get() {
        return Err(LEFT);
    }
    Ok(rt.step(i, |tx, n, i| counts(tx, n, i))?)
}

/// How many steps an uneven iteration has, and how many turns.
fn uneven(i: u32) -> (u32, u32) {
    let turns = if i.is_multiple_of(2) { 1 + i % 3 } else { 0 };
    (i * 5 % 4, turns)
}

/// All steps and turns of the iterations before this one.
fn before(i: u32) -> u32 {
    (0..i).map(uneven).map(|(steps, turns)| steps + turns).sum()
}

fn uneven_iteration<M: Model>(rt: &mut Rt<'_, M>, i: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    if i == STOP.get() {
        return Err(LEFT);
    }
    let (steps, turns) = uneven(i);
    for k in 0..steps {
        rt.step(before(i) + k, |tx, n, done| counts(tx, n, done))?;
    }
    let first = before(i) + steps;
    rt.each_step(0..turns, first, |tx, n, k, first| counts(tx, n, first + k))
}

fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, usize>, script: &Script)
where
    M::Unit: Width,
{
    let mut region = nv;
    loop {
        let last = script.count;
        let stop = *script.stops.get(world.get()).unwrap_or(&last);
        world.update(|opening| *opening += 1);
        STOP.set(stop);
        let options = Options {
            table: Config {
                bytes: 64,
                outbox_bytes: 0,
                seq_bits: script.bits,
            },
            pool: Some(pmem_tx::Config::SMALL),
            ..Options::default()
        };
        let opened = Rt::<M>::open(region, options, |_| Ok(0));
        let mut rt = opened.unwrap_or_else(|r| panic!("{r}"));
        let ran = match script.kind {
            Kind::Each => rt.each(0..last, |rt, i| iteration(rt, i)),
            Kind::Turns => rt.each_step(0..last, (), |tx, n, i, a| turn(tx, n, i, a)),
            Kind::Uneven => rt.each(0..last, |rt, i| uneven_iteration(rt, i)),
            Kind::Forever => rt.forever(|rt, i| iteration(rt, i)).map(drop),
            Kind::ForeverTurns => rt
                .forever_step((), |tx, n, i, a| turn(tx, n, i, a))
                .map(drop),
        };
        // After a cut a loop may have passed an iteration in which an earlier opening stops.
        let endless = matches!(script.kind, Kind::Forever | Kind::ForeverTurns);
        if stop == last && !endless {
            assert_eq!(ran, Ok(()));
        }
        match ran {
            Ok(()) => {
                let n = rt.view(|tx, n| *n.get(tx));
                let all = match script.kind {
                    Kind::Uneven => before(last),
                    _ => last,
                };
                return assert_eq!(n, Ok(Some(all)));
            }
            Err(e) => assert_eq!(e, LEFT),
        }
        if stop == last {
            return;
        }
        region = rt.close();
    }
}

fn scripts() -> impl Strategy<Value = Script> {
    use Kind::*;
    let kind = prop::sample::select(vec![Each, Forever, Turns, ForeverTurns, Uneven, Uneven]);
    let stops = prop::collection::vec(0..140_u32, 0..4);
    (kind, 3..7_u8, 130..140_u32, stops).prop_map(|(kind, bits, mut count, mut stops)| {
        if kind == Uneven {
            count -= 110;
        }
        stops.retain(|stop| *stop < count);
        stops.sort();
        Script {
            kind,
            bits,
            count,
            stops,
        }
    })
}

fn long<M: Model>(cases: u32)
where
    M::Unit: Width,
{
    let s = random(scripts(), || Mapped::<M>::new(1024), boot::<M>);
    let s = s.cases(programs(cases)).seed(seed()).run();
    println!("{s}");
}

#[test]
fn in_order_16() {
    long::<InOrder16>(8);
}

#[test]
fn buffered_16() {
    long::<crate::migrate::Buffered16>(3);
}
