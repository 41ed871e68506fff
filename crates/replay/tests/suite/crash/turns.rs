//! Loops of one step whose body fails in one boot and succeeds in the next.

use super::programs::{PORT, Root, Rt, Setup, Top, W, WorldState};
use nv_replay::nvmem::{InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Error, Message, NotNow, Options, Outlet, Replay};
use powerfail::{Mapped, explore};
use std::cell::Cell;

/// Stores messages in the world, once each.
struct Sink<'a, 'r>(&'a W<'r>);
impl Outlet for Sink<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&PORT).expect("the port").expect("a number");
        let known = self.0.with(|w| w.sent.get(m.number as usize).copied());
        match known {
            Some(known) => assert_eq!(known, v, "another message {}", m.number),
            None => self.0.update(|w| w.sent.push(v)),
        }
        Ok(())
    }
}

fn top<'p, U: Width>() -> Result<Top<'p, U>, pmem_tx::Error> {
    Ok(Top {
        n: 0,
        sum: 0,
        list: None,
    })
}

std::thread_local! {
    /// The body fails in iteration 1.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// A turn that fails after it has changed objects and sent a message: it is undone, the runtime has
/// stopped, and the next opening runs it again. The number of the failed turn is not used up, so
/// its message must not leave with the next commit of that number.
fn program<M: Model>(rt: &mut Replay<'_, Root<M>, M, Sink<'_, '_>>) -> Result<(), Error>
where
    M::Unit: Width,
{
    rt.each_step(0..3, (), |tx, t, i, ()| {
        let mut f = t.fields(tx);
        *f.n.get_mut()? += 1;
        *f.sum.get_mut()? += i * i;
        if i == 1 && FAILS.get() {
            tx.send(&PORT, 99)?;
            return Err(tx.abort(7));
        }
        // The turn that follows the failed one sends nothing.
        if i == 1 { Ok(()) } else { tx.send(&PORT, i) }
    })
}

fn life<M: Model>(nv: Region<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    let options = || Options {
        table: Setup::small(3).table,
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    FAILS.set(true);
    let mut rt = Replay::<Root<M>, M, _>::open_with(nv, options(), Sink(world), |_| top())
        .ok()
        .unwrap();
    let failed = program(&mut rt);
    if failed.is_err() {
        assert_eq!(failed, Err(Error::Aborted(7)));
        assert!(
            rt.step((), |_, _, ()| Ok(())).is_err(),
            "the runtime has stopped"
        );
        assert_eq!(program(&mut rt), Err(Error::LoopInterrupted));
    }
    FAILS.set(false);
    let mut rt = Replay::<Root<M>, M, _>::open_with(rt.close(), options(), Sink(world), |_| top())
        .ok()
        .unwrap();
    program(&mut rt).unwrap();
    let seen = rt.step((), |tx, t, ()| Ok((t.get(tx).n, t.get(tx).sum)));
    assert_eq!(seen.unwrap(), (3, 5));
    assert_eq!(world.get().sent, [0, 2]);
    let (audit, _) = rt.audit().ok().unwrap();
    assert_eq!(audit.unreachable, 0, "{audit:?}");
}

fn run<M: Model>()
where
    M::Unit: Width,
{
    let s = explore(Mapped::<M>::new(2048), |nv, world: &W<'_>| {
        life::<M>(nv, world)
    })
    .world(WorldState::default())
    .depth(2)
    .run();
    println!("{}: {s}", M::NAME);
    assert!(s.partial || s.boots > 20, "{s}");
}

on_each_medium!(run: in_order_32);

/// A loop of one step is no other call, whatever else is equal, and no other call is one.
#[test]
fn kinds_are_told_apart() {
    type Call = fn(&mut Rt<'_, InOrder32>) -> Result<(), Error>;
    let calls: [Call; 4] = [
        |rt| rt.each_step(0..2, (), |_, _, _, ()| Ok(())),
        |rt| rt.each(0..2, |_, _| Ok(())),
        |rt| rt.each_with(0..2, (), |_, _, ()| Ok(())),
        |rt| Ok(rt.step((), |_, _, ()| Ok(()))?),
    ];
    fn open(nv: Region<'_, InOrder32>) -> Rt<'_, InOrder32> {
        Rt::open(nv, Options::default(), |_| top()).ok().unwrap()
    }
    for (i, first) in calls.iter().enumerate() {
        for (j, second) in calls.iter().enumerate() {
            let mut memory = vec![std::mem::MaybeUninit::new(0); 512];
            let mut rt = open(Region::new(&mut memory));
            first(&mut rt).unwrap();
            let mut rt = open(rt.close());
            let same = i == j || i.min(j) == 1 && i.max(j) == 2;
            let wanted = if same { Ok(()) } else { Err(Error::Diverged) };
            assert_eq!(second(&mut rt), wanted, "{i} {j}");
        }
    }
}
