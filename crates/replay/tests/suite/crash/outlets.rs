//! Outlets that are there only in some boots, and outlets that say "not now".

use super::programs::{Setup, W, WorldState};
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Message, NotNow, Options, Outlet, Port, Replay};
use powerfail::{Mapped, World, explore};
use std::cell::Cell;

static PORT: Port<[u32; 3]> = Port::new(1);

/// The content of each message is its number.
struct Whole;
impl Outlet for Whole {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let words = m.get(&PORT).expect("the port").expect("three words");
        assert_eq!(words, [m.number; 3], "message {}", m.number);
        Ok(())
    }
}

/// Every second life has no outlet: messages pending then are dropped. No message is ever sent with
/// the content of another.
fn every_second_life_has_an_outlet(nv: Region<'_, Buffered32>, world: &W<'_>) {
    world.update(|w| w.reads += 1);
    let mut whole = Whole;
    let options = Options {
        table: Setup::small(16).table,
        pool: Some(pmem_tx::Config::SMALL),
        outlet: match world.get().reads % 2 {
            1 => Some(&mut whole),
            _ => None,
        },
        ..Options::default()
    };
    let mut rt = Replay::<u32, _>::open(nv, options, |_| Ok(0)).unwrap();
    for i in 0..4 {
        rt.step(i, |tx, _, i| tx.send(&PORT, [i; 3])).unwrap();
    }
    world.update(|w| w.done = true);
}

#[test]
fn buffered_32() {
    let s = explore(Mapped::<Buffered32>::new(2048), |nv, world: &W<'_>| {
        every_second_life_has_an_outlet(nv, world)
    })
    .world(WorldState::default())
    .depth(2)
    .run();
    assert!(s.partial || s.boots > 20, "{s}");
}

/// What a receiver has got, and how often its radio was asked.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Air {
    asked: u32,
    /// Bits that decide when the radio is busy.
    busy: u32,
    received: Vec<u32>,
}

/// A radio that says "not now" at random. Its messages say their number.
struct Busy<'a, 'r>(&'a World<'r, Air>);
impl Outlet for Busy<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&WORD).expect("the port").expect("a word");
        self.0.update(|w| w.asked += 1);
        let (asked, busy) = self.0.with(|w| (w.asked, w.busy));
        if busy >> (asked % 32) & 1 != 0 {
            return Err(NotNow);
        }
        let next = self.0.with(|w| w.received.len() as u32);
        assert!(m.number <= next, "message {} before {next}", m.number);
        match self.0.with(|w| w.received.get(m.number as usize).copied()) {
            Some(known) => assert_eq!(known, v, "another message {}", m.number),
            None => self.0.update(|w| w.received.push(v)),
        }
        Ok(())
    }
}
static WORD: Port<u32> = Port::new(2);

/// Steps that send no, one or two messages, and one that fails, while the radio is busy or not.
/// Every message arrives, in order, and no number is given twice.
fn a_busy_radio<M: Model>(nv: Region<'_, M>, world: &World<'_, Air>)
where
    M::Unit: Width,
{
    let mut table = Setup::small(3).table;
    table.outbox_bytes = 64;
    let options = Options {
        table,
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(nv, options, Busy(world), |_| Ok(0)).unwrap();
    rt.each(0..3, |rt, i| {
        rt.step(i, |tx, n, i| {
            *n.get_mut(tx)? += 1;
            tx.send(&WORD, 10 * i)?;
            if i == 1 {
                tx.send(&WORD, 11)?;
            }
            Ok(())
        })?;
        let failed = rt.step((), |tx, _, ()| {
            tx.send(&WORD, 999)?;
            Err::<(), _>(tx.abort(1))
        });
        assert!(failed.is_err());
        let n = rt.step((), |tx, n, ()| Ok(*n.get(tx)))?;
        assert_eq!(n, i + 1);
        Ok(())
    })
    .unwrap();
    let mut tries = 0;
    while let Err(NotNow) = rt.drain() {
        assert!(rt.waits());
        tries += 1;
        assert!(tries < 200, "the radio is not always busy");
    }
    assert!(!rt.waits());
    assert_eq!(world.with(|w| w.received[..4].to_vec()), [0, 10, 11, 20]);
    // One step after the other sends, so that messages are appended to kept ones.
    for k in 30..34 {
        rt.step(k, |tx, _, k| tx.send(&WORD, k)).unwrap();
    }
    while rt.drain().is_err() {}
    assert_eq!(world.with(|w| w.received[4..].to_vec()), [30, 31, 32, 33]);
}

/// Patterns of a busy radio, on each medium. With the last one, a step's messages leave together
/// with kept ones.
fn busy<M: Model>(depth: u32)
where
    M::Unit: Width,
{
    for busy in [0x5bb6_d5ab, 0x0f3c_0ff0, 0x8000_00ff, 0x4924_9249] {
        let s = explore(Mapped::<M>::new(2048), |nv, world: &World<'_, Air>| {
            a_busy_radio(nv, world)
        })
        .world(Air {
            busy,
            ..Air::default()
        })
        .depth(depth)
        .run();
        assert!(s.partial || s.boots > 20, "{s}");
    }
}

#[test]
fn not_now_in_order_16() {
    busy::<InOrder16>(2);
}
#[test]
fn not_now_in_order_32() {
    busy::<InOrder32>(2);
}
#[test]
fn not_now_buffered_32() {
    busy::<Buffered32>(1);
}

thread_local! {
    /// Whether the program of this life sends.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// What left, by number and content, and how many boots there were.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Ether {
    boots: u32,
    got: Vec<(u32, u32)>,
}

/// Takes all messages.
struct Loud<'a, 'r>(&'a World<'r, Ether>);
impl Outlet for Loud<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&WORD).expect("the port").expect("a word");
        let same = |&(number, known): &(u32, u32)| (number == m.number) == (known == v);
        assert!(self.0.with(|w| w.got.iter().all(same)), "{m:?} {v}");
        if self.0.with(|w| !w.got.contains(&(m.number, v))) {
            self.0.update(|w| w.got.push((m.number, v)));
        }
        Ok(())
    }
}

/// The environment of a program whose type says that it sends nothing.
struct Silent;
impl Outlet for Silent {
    fn sends_nothing() -> bool {
        true
    }
}

/// In every second life the program is one that sends nothing, over a table that has an outbox.
/// Each step and turn notes whether it has sent.
fn a_silent_life<M: Model>(nv: Region<'_, M>, world: &World<'_, Ether>)
where
    M::Unit: Width,
{
    world.update(|w| w.boots += 1);
    let loud = world.with(|w| w.boots % 2 == 1);
    SENDS.set(loud);
    let options = Options {
        table: Setup::small(3).table,
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    if loud {
        sends_or_not(nv, world, options, Loud(world));
    } else {
        sends_or_not(nv, world, options, Silent);
    }
}

fn sends_or_not<'a, M: Model, E: Outlet>(
    nv: Region<'a, M>,
    world: &World<'_, Ether>,
    options: Options<'a>,
    env: E,
) where
    M::Unit: Width,
{
    let mut rt = Replay::<[u32; 5], M, _>::open_with(nv, options, env, |_| Ok([0; 5])).unwrap();
    for i in 0..2 {
        rt.step(i, |tx, sent, i| {
            sent.get_mut(tx)?[i as usize] = 1 + u32::from(SENDS.get());
            if SENDS.get() {
                tx.send(&WORD, i)?;
            }
            Ok(())
        })
        .unwrap();
    }
    rt.each_step(2..5, (), |tx, sent, i, ()| {
        sent.get_mut(tx)?[i as usize] = 1 + u32::from(SENDS.get());
        if SENDS.get() {
            tx.send(&WORD, i)?;
        }
        Ok(())
    })
    .unwrap();
    rt.each(0..2, |_, _| Ok(())).unwrap();
    let sent = rt.step((), |tx, sent, ()| Ok(*sent.get(tx))).unwrap();
    for (number, i) in world.get().got {
        assert_eq!(
            sent[i as usize], 2,
            "message {number} of a step that did not commit"
        );
    }
}

fn silent<M: Model>()
where
    M::Unit: Width,
{
    let s = explore(Mapped::<M>::new(2048), |nv, world: &World<'_, Ether>| {
        a_silent_life::<M>(nv, world)
    })
    .world(Ether::default())
    .depth(2)
    .run();
    assert!(s.partial || s.boots > 20, "{s}");
}

#[test]
fn silent_in_order_16() {
    silent::<InOrder16>();
}
#[test]
fn silent_in_order_32() {
    silent::<InOrder32>();
}
#[test]
fn silent_buffered_32() {
    silent::<Buffered32>();
}
