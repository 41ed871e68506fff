//! Test programs, each with a check of what must hold at its end.

use nv_replay::nvmem::{Model, Persist, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{
    Config, Error, Held, Message, NotNow, Options, Outlet, PBox, Port, Replay, Update,
};
use powerfail::World;
use std::cell::Cell;

/// The state of the outside world.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
pub struct WorldState {
    /// How often the sensor was read; also its value.
    pub reads: u32,
    /// Messages without duplicates.
    pub sent: Vec<u32>,
    /// The number of the last message.
    pub last: Option<u32>,
    /// Values shown to a user; they must not change later.
    pub shown: Vec<u32>,
    /// The program has reached its end.
    pub done: bool,
    /// Which calls recorded an input, and sent no message, when they were last made.
    pub withdrawn: [bool; 3],
}
pub type W<'r> = World<'r, WorldState>;

#[derive(Persist)]
#[repr(C)]
pub struct Item<'p, U: Width> {
    pub v: u32,
    pub next: Option<PBox<'p, Item<'p, U>, U>>,
}
#[derive(Persist)]
#[repr(C)]
pub struct Top<'p, U: Width> {
    pub n: u32,
    pub sum: u32,
    pub list: Option<PBox<'p, Item<'p, U>, U>>,
}
pub type Root<M> = Top<'static, <M as Model>::Unit>;
pub type Rt<'m, M> = Replay<'m, Root<M>, M>;

pub static PORT: Port<u32> = Port::new(1);

/// Stores messages in the world, and drops duplicates as a receiver would.
struct Sink<'a, 'r> {
    world: &'a W<'r>,
    live: u32,
}
impl Outlet for Sink<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&PORT).expect("the port").expect("a number");
        self.world.update(|w| {
            let next = w.last.map_or(0, |l| l + 1);
            if m.number == next {
                w.sent.push(v);
                w.last = Some(m.number);
            } else {
                assert!(m.number < next, "message {} after {:?}", m.number, w.last);
                assert_eq!(
                    w.sent[m.number as usize], v,
                    "another message of this number"
                );
            }
        });
        Ok(())
    }
    fn live(&mut self) {
        self.live += 1;
        assert_eq!(self.live, 1, "live twice");
    }
}

pub struct Setup {
    pub table: Config,
    pub version: u16,
    pub update: Update,
}
impl Setup {
    pub const fn small(seq_bits: u8) -> Setup {
        Setup {
            table: Config {
                bytes: 264,
                outbox_bytes: 24,
                seq_bits,
            },
            version: 0,
            update: Update::Refuse,
        }
    }
}

/// One life: open, run, check.
pub fn life<M: Model>(
    nv: Region<'_, M>,
    world: &W<'_>,
    setup: &Setup,
    program: fn(&mut Rt<'_, M>, &W<'_>) -> Result<(), Error>,
    check: fn(&mut Rt<'_, M>, &W<'_>),
) where
    M::Unit: Width,
{
    let mut sink = Sink { world, live: 0 };
    let options = Options {
        table: setup.table,
        pool: Some(pmem_tx::Config::SMALL),
        version: setup.version,
        update: setup.update,
        outlet: Some(&mut sink),
        ..Options::default()
    };
    let mut rt = Rt::<M>::open(nv, options, |_| {
        Ok(Top {
            n: 0,
            sum: 0,
            list: None,
        })
    })
    .unwrap();
    if let Err(e) = program(&mut rt, world) {
        panic!("the program failed: {e}");
    }
    check(&mut rt, world);
    assert!(rt.is_live());
    let (audit, _) = rt.audit().unwrap();
    assert_eq!(audit.unreachable, 0, "{audit:?}");
    assert_eq!(sink.live, 1);
    if !world.get().done {
        world.update(|w| w.done = true);
    }
}

/// Shows a value. If the program has shown the `i`-th value before a cut, it must be the same.
pub fn show(world: &W<'_>, i: usize, v: u32) {
    match world.with(|w| w.shown.get(i).copied()) {
        Some(seen) => assert_eq!(seen, v, "value {i} has changed"),
        None => {
            assert_eq!(world.with(|w| w.shown.len()), i);
            world.update(|w| w.shown.push(v));
        }
    }
}

pub fn read_sensor(world: &W<'_>) -> u32 {
    world.update(|w| w.reads += 1);
    world.with(|w| w.reads)
}

pub fn state<M: Model>(rt: &mut Rt<'_, M>) -> (u32, u32)
where
    M::Unit: Width,
{
    rt.step((), |tx, t, ()| Ok((t.get(tx).n, t.get(tx).sum)))
        .unwrap()
}

/// Results of zero, one, two and many units; arguments; a step that fails.
pub fn steps<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    rt.step((), |tx, t, ()| {
        t.fields(tx).n.set(1)?;
        Ok(())
    })?;
    let a = rt.step((), |tx, t, ()| {
        *t.fields(tx).n.get_mut()? += 1;
        Ok(7u8)
    })?;
    show(world, 0, a.into());
    let b = rt.step((a, 3u32), |tx, t, (a, k)| {
        *t.fields(tx).sum.get_mut()? += k;
        Ok((u32::from(a) + k, t.get(tx).n))
    })?;
    show(world, 1, b.0 * 100 + b.1);
    let r = rt.step(b.0, |tx, t, _| {
        t.get_mut(tx)?.n = 99;
        Err::<u32, _>(tx.abort(5))
    });
    assert_eq!(Error::from(r.unwrap_err()), Error::Aborted(5));
    let c = rt.step((), |tx, t, ()| {
        *t.fields(tx).sum.get_mut()? += 1;
        Ok([t.get(tx).sum as u8; 63])
    })?;
    show(world, 2, c[62].into());
    Ok(())
}
pub fn steps_done<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    assert_eq!(state(rt), (2, 4));
    assert_eq!(world.get().shown, [7, 1002, 4]);
}

/// Recorded inputs.
pub fn inputs<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    let x = rt.record_with(|| read_sensor(world))?;
    show(world, 0, x);
    let y = rt.record(read_sensor(world))?;
    show(world, 1, y);
    rt.step((x, y), |tx, t, (x, y)| {
        *t.fields(tx).sum.get_mut()? += x * 1000 + y;
        Ok(())
    })?;
    Ok(())
}
pub fn inputs_done<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    let s = world.get().shown;
    assert_eq!(state(rt), (0, s[0] * 1000 + s[1]));
}

/// Objects that are allocated, lent, changed, given to each other and to the root, and freed.
pub fn handles<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    type H<M> = Held<Item<'static, <M as Model>::Unit>, <M as Model>::Unit>;
    let make = |rt: &mut Rt<'_, M>, v: u32| -> Result<H<M>, Error> {
        Ok(rt
            .named(v)
            .step_own::<_, H<M>>(v, |tx, _, v| PBox::new(tx, Item { v, next: None }))?)
    };
    let mut a = make(rt, 3)?;
    let b = make(rt, 4)?;
    let v = rt.step(a.lend(), |tx, _, mut a| {
        a.get_mut(tx)?.v += 10;
        Ok(a.get(tx).v)
    })?;
    show(world, 0, v);
    let (a, v) = rt.step_own::<_, (H<M>, u32)>((a, b), |tx, _, (mut a, b)| {
        a.get_mut(tx)?.next = Some(b);
        let v = a.get(tx).v;
        Ok((a, v))
    })?;
    show(world, 1, v);
    rt.step(a, |tx, t, a| {
        t.get_mut(tx)?.list = Some(a);
        Ok(())
    })?;
    let b = rt.step_own::<_, H<M>>((), |tx, t, ()| {
        let list = &mut t.get_mut(tx)?.list;
        let a = list.take().ok_or(tx.abort(1))?.into_inner(tx)?;
        a.next.ok_or(tx.abort(2))
    })?;
    rt.step(b, |tx, t, b| {
        t.get_mut(tx)?.n = b.into_inner(tx)?.v;
        Ok(())
    })?;
    Ok(())
}
pub fn handles_done<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    assert_eq!(state(rt), (4, 0));
    assert_eq!(world.get().shown, [13, 13]);
}

/// Nested loops, with a step before, between and after.
pub fn loops<M: Model>(rt: &mut Rt<'_, M>, _: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    let k = rt.record(2u32)?;
    rt.each_with(0..2, k, |rt, i, k| {
        let x = rt.step((i, k), |tx, t, (i, k)| {
            *t.fields(tx).n.get_mut()? += k;
            Ok(i + 1)
        })?;
        rt.each_with(0..2, x, |rt, _, x| {
            rt.step(x, |tx, t, x| {
                *t.fields(tx).sum.get_mut()? += x;
                Ok(())
            })?;
            Ok(())
        })?;
        rt.step((), |tx, t, ()| {
            *t.fields(tx).n.get_mut()? += 10;
            Ok(())
        })?;
        Ok(())
    })?;
    rt.each(5..6, |_, _| Ok(()))?;
    Ok(())
}
pub fn loops_done<M: Model>(rt: &mut Rt<'_, M>, _: &W<'_>)
where
    M::Unit: Width,
{
    assert_eq!(state(rt), (24, 2 * (1 + 2)));
}

/// Objects that live for one iteration, and one that is lent to all iterations.
pub fn loop_handles<M: Model>(rt: &mut Rt<'_, M>, _: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    type H<M> = Held<Item<'static, <M as Model>::Unit>, <M as Model>::Unit>;
    let mut total =
        rt.step_own::<_, H<M>>((), |tx, _, ()| PBox::new(tx, Item { v: 0, next: None }))?;
    rt.each_with(0..2, &mut total, |rt, i, mut total| {
        let x = rt.step_own::<_, H<M>>(i, |tx, _, i| {
            let v = i + 5;
            PBox::new(tx, Item { v, next: None })
        })?;
        rt.step((total.lend(), x), |tx, _, (mut total, x)| {
            total.get_mut(tx)?.v += x.into_inner(tx)?.v;
            Ok(())
        })?;
        Ok(())
    })?;
    rt.step(total, |tx, t, total| {
        t.get_mut(tx)?.n = total.into_inner(tx)?.v;
        Ok(())
    })?;
    Ok(())
}
pub fn loop_handles_done<M: Model>(rt: &mut Rt<'_, M>, _: &W<'_>)
where
    M::Unit: Width,
{
    assert_eq!(state(rt), (11, 0));
}

/// Messages of steps that commit, of a step that sends none, and of one that fails.
pub fn sends<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    rt.each(0..2, |rt, i| {
        rt.step(i, |tx, t, i| {
            *t.fields(tx).n.get_mut()? += 1;
            tx.send(&PORT, i)?;
            tx.send(&PORT, i + 100)
        })?;
        let r = rt.step((), |tx, _, ()| {
            tx.send(&PORT, 999)?;
            Err::<(), _>(tx.abort(1))
        });
        assert!(r.is_err());
        Ok(())
    })?;
    // This input is read again after a cut, and decides whether a message is sent.
    let odd = read_sensor(world) % 2;
    if odd == 1 {
        rt.named(77).step_own::<_, ()>((), |_, _, ()| Ok(()))?;
    } else {
        rt.named(77).step_own::<_, ()>((), |tx, t, ()| {
            *t.fields(tx).n.get_mut()? += 1000;
            tx.send(&PORT, 50)
        })?;
    }
    rt.step((), |tx, _, ()| tx.send(&PORT, 5))?;
    Ok(())
}
pub fn sends_done<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    let (n, _) = state(rt);
    let mut sent = vec![0, 100, 1, 101];
    if n == 1002 {
        sent.push(50);
    }
    sent.push(5);
    assert!(n == 2 || n == 1002, "{n}");
    assert_eq!(world.get().sent, sent);
}

/// An iteration runs its step before a cut, and after the cut only if it is recorded. Then it ends
/// without a step, with the number that the step would have had.
pub fn iterations<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    thread_local! {
        static WITHDRAWN: Cell<bool> = const { Cell::new(false) };
    }
    WITHDRAWN.set(read_sensor(world) % 2 == 1);
    rt.each(0..3, |rt, i| {
        if rt.is_live() && WITHDRAWN.get() {
            // A transaction that gives its number back. The first one after an open is never the
            // end of an iteration that takes one store.
            let _ = rt.view(|_, _| ())?;
            return Ok(());
        }
        rt.step(i, |tx, t, i| {
            *t.fields(tx).n.get_mut()? += 1 << i;
            tx.send(&PORT, 50 + i)
        })?;
        Ok(())
    })
}
pub fn iterations_done<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    let (n, _) = state(rt);
    let done = (0..3).filter(|i| n >> i & 1 != 0).map(|i| 50 + i);
    assert_eq!(world.get().sent, done.collect::<Vec<_>>());
}

/// Each call is a step that sends a message, or an input that sends none; `withdrawn` says which it
/// was last. A step that was cut may be an input after the cut, with the sequence number that the
/// step would have had: then the step's message must not be sent.
pub fn records<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    for i in 0..3_u32 {
        if rt.is_live() {
            // A transaction that gives its number back: the first one after an open is never
            // committed by its header alone.
            let _ = rt.view(|_, _| ())?;
            let withdrawn = read_sensor(world) % 2 == 1;
            world.update(|w| w.withdrawn[i as usize] = withdrawn);
        }
        if world.with(|w| w.withdrawn[i as usize]) {
            assert_eq!(rt.record(i)?, i);
        } else {
            rt.step(i, |tx, t, i| {
                *t.fields(tx).n.get_mut()? += 1 << i;
                tx.send(&PORT, 50 + i)
            })?;
        }
    }
    Ok(())
}

/// Loops of one step: with arguments, with a handle that is lent, behind records of the iteration
/// of an outer loop, over no number.
pub fn step_loops<M: Model>(rt: &mut Rt<'_, M>, _: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    type H<M> = Held<Item<'static, <M as Model>::Unit>, <M as Model>::Unit>;
    rt.each_step(3..5, 2u32, |tx, t, i, k| {
        let mut t = t.fields(tx);
        *t.n.get_mut()? += i * k;
        *t.sum.get_mut()? += 1;
        Ok(())
    })?;
    rt.each(0..2, |rt, i| {
        for k in 0..2 * (1 - i) {
            rt.step(k, |tx, t, k| {
                *t.fields(tx).sum.get_mut()? += k;
                Ok(())
            })?;
        }
        rt.each_step(0..2, i, |tx, t, _, i| {
            *t.fields(tx).n.get_mut()? += 100 + i;
            Ok(())
        })?;
        rt.step((), |tx, t, ()| {
            *t.fields(tx).sum.get_mut()? += 10;
            Ok(())
        })?;
        Ok(())
    })?;
    let mut total =
        rt.step_own::<_, H<M>>((), |tx, _, ()| PBox::new(tx, Item { v: 0, next: None }))?;
    rt.each_step(0..2, (total.lend(), 5u32), |tx, t, i, (mut total, k)| {
        total.get_mut(tx)?.v += i + k;
        // Frees and allocates, so that a turn ends with more than its commit.
        let root = t.get_mut(tx)?;
        if let Some(old) = root.list.take() {
            old.into_inner(tx)?;
        }
        root.list = Some(PBox::new(tx, Item { v: i, next: None })?);
        Ok(())
    })?;
    rt.each_step(4..4, 9u32, |tx, _, _, _| Err(tx.abort(1)))?;
    rt.step(total, |tx, t, total| {
        t.get_mut(tx)?.n += 1000 * total.into_inner(tx)?.v;
        Ok(())
    })?;
    Ok(())
}
pub fn step_loops_done<M: Model>(rt: &mut Rt<'_, M>, _: &W<'_>)
where
    M::Unit: Width,
{
    assert_eq!(state(rt), (14 + 402 + 11_000, 2 + 1 + 20));
}

std::thread_local! {
    /// An input of this boot that nothing records.
    static ODD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Turns that send two messages, one, and none; one of them only if the sensor says so in this
/// boot.
pub fn turns_send<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    ODD.set(read_sensor(world) % 2 == 1);
    rt.each_step(0..4, (), |tx, t, i, ()| {
        *t.fields(tx).n.get_mut()? += 1;
        match i {
            0 => {
                tx.send(&PORT, 10)?;
                tx.send(&PORT, 11)
            }
            1 if ODD.get() => Ok(()),
            1 => {
                *t.fields(tx).n.get_mut()? += 1000;
                tx.send(&PORT, 50)
            }
            2 => tx.send(&PORT, 30),
            _ => Ok(()),
        }
    })?;
    rt.step((), |tx, _, ()| tx.send(&PORT, 5))?;
    Ok(())
}
pub fn turns_sent<M: Model>(rt: &mut Rt<'_, M>, world: &W<'_>)
where
    M::Unit: Width,
{
    let (n, _) = state(rt);
    assert!(n == 4 || n == 1004, "{n}");
    let mut sent = vec![10, 11, 50, 30, 5];
    if n == 4 {
        sent.remove(2);
    }
    assert_eq!(world.get().sent, sent);
}
