//! Boots in different moods: programs whose steps send now and then, with radios that are busy,
//! that unwind, or that are not there.
//!
//! A step that reads an input itself may do something else when it runs again after a cut. Here the
//! mood of an opening decides whether its steps send. So a message that a cut has withdrawn must
//! not leave with the number that its step would have had, whatever takes that number: a step
//! that sends nothing, an input, a turn, the end of an iteration. Each message says which step has
//! sent it, and the root says which steps have.
//!
//! | radio | messages |
//! |---|---|
//! | takes | leave, in order |
//! | is busy | wait, and are offered again |
//! | unwinds | wait for the next open, and nothing runs until then |
//! | none, or an environment that sends nothing | are dropped |

use crate::runs::{programs, seed};
use nv_replay::nvmem::{InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, Message, NotNow, Options, Outlet, Port, Replay, Root, Step};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Each step has a number: four times the place of its operation, and the iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Step,
    /// A step, or an input: as the opening likes, if it is the first that comes here.
    StepOrInput,
    /// Each iteration has a step, or nothing.
    Iterations(u8),
    /// A loop of one step.
    Turns(u8),
    /// Sends, and aborts.
    Fail,
    /// Sends more than there is room for, and ignores that. Where nothing is sent, one message.
    Flood,
    /// Looks at the objects: a transaction that gives its number back.
    View,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Radio {
    Takes,
    /// Whether it refuses an offer, for eight of them.
    Busy(u8),
    /// It unwinds at this offer.
    Unwinds(u8),
    None,
    Silent,
}

/// An opening of the runtime.
#[derive(Clone, Copy, Debug)]
struct Mood {
    /// Steps send.
    loud: bool,
    /// It has inputs instead of steps, and iterations without them.
    quiet: bool,
    radio: Radio,
    /// The program is given up before this operation.
    ops: u8,
}

/// After those of the script.
const CALM: Mood = Mood {
    loud: true,
    quiet: false,
    radio: Radio::Takes,
    ops: 99,
};

#[derive(Clone, Debug)]
struct Script {
    bits: u8,
    ops: Vec<Op>,
    moods: Vec<Mood>,
}

#[derive(Clone, Hash, Debug, Default)]
struct Outside {
    openings: usize,
    /// Messages may have been dropped.
    dropped: bool,
    /// Which operations are inputs.
    inputs: u32,
    /// Which step has sent the message of this number.
    received: BTreeMap<u32, u32>,
}

/// Which steps are done, and which of them have sent.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Done {
    done: u32,
    sent: u32,
}

std::thread_local! {
    static LOUD: Cell<bool> = const { Cell::new(false) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// How many messages there is no room for.
    static FLOOD: Cell<u32> = const { Cell::new(0) };
    /// The number of the operation's first step.
    static FIRST: Cell<u32> = const { Cell::new(0) };
    /// A message was offered since this was cleared.
    static OFFERED: Cell<bool> = const { Cell::new(true) };
}

static PORT: Port<u32> = Port::new(1);

/// A radio in one opening.
struct Air<'t> {
    world: &'t World<'t, Outside>,
    radio: Radio,
    offers: u32,
    /// The number that comes next.
    next: Option<u32>,
    /// It may unwind.
    armed: bool,
}

struct Unwinds;

impl Outlet for Air<'_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        OFFERED.set(true);
        let step = m.get(&PORT).expect("the port").expect("a number");
        let (offer, number) = (self.offers, m.number);
        self.offers += 1;
        match self.radio {
            Radio::Busy(when) if when >> (offer % 8) & 1 != 0 => return Err(NotNow),
            Radio::Unwinds(when) if self.armed && u32::from(when) == offer => {
                resume_unwind(Box::new(Unwinds))
            }
            _ => {}
        }
        let next = *self.next.get_or_insert(number);
        assert_eq!(number, next, "each message once, and in order");
        self.next = Some(next + 1);
        self.world.update(|w| {
            let known = *w.received.entry(number).or_insert(step);
            assert_eq!(known, step, "another message {number}");
            let order = w.received.values();
            assert!(order.is_sorted_by(|a, b| a < b), "{:?}", w.received);
        });
        Ok(())
    }
}

/// The environment of a program that sends nothing.
struct Silent;
impl Outlet for Silent {
    fn sends_nothing() -> bool {
        true
    }
}

type Rt<'m, E, M> = Replay<'m, Done, M, E>;

/// A step's body.
fn does<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    root: &mut Root<'p, Done, M::Unit>,
    step: u32,
) -> Result<(), pmem_tx::Error>
where
    M::Unit: Width,
{
    let (bit, loud) = (1 << step, LOUD.get());
    // Before any change, so that no fence comes before it.
    if loud {
        tx.send(&PORT, step)?;
    }
    let root = root.get_mut(tx)?;
    assert_eq!(root.done & bit, 0, "step {step} runs again");
    root.done |= bit;
    root.sent |= if loud { bit } else { 0 };
    Ok(())
}

/// Whether messages that wait were offered since the last call.
fn offers<M: Model, E: Outlet>(rt: &Rt<'_, E, M>)
where
    M::Unit: Width,
{
    assert!(
        !rt.waits() || OFFERED.get(),
        "messages wait, and are not offered"
    );
    OFFERED.set(false);
}

fn program<M: Model, E: Outlet>(
    rt: &mut Rt<'_, E, M>,
    world: &World<'_, Outside>,
    ops: &[Op],
) -> Result<(), Error>
where
    M::Unit: Width,
{
    for (k, op) in ops.iter().enumerate() {
        let (first, name) = (4 * k as u32, k as u32);
        FIRST.set(first);
        OFFERED.set(true);
        match *op {
            Op::Step => rt
                .named(name)
                .step(first, |tx, root, n| does(tx, root, n))?,
            Op::StepOrInput => {
                if rt.is_live() {
                    let bit = 1 << k;
                    world.update(|w| match QUIET.get() {
                        true => w.inputs |= bit,
                        false => w.inputs &= !bit,
                    });
                }
                match world.with(|w| w.inputs >> k & 1 != 0) {
                    true => {
                        let _ = rt.view(|_, _| ())?;
                        rt.named(name).record(first)?;
                    }
                    false => rt
                        .named(name)
                        .step(first, |tx, root, n| does(tx, root, n))?,
                }
            }
            Op::Iterations(n) => {
                rt.named(name).each(0..n.into(), |rt, i| {
                    offers(rt);
                    if rt.is_live() && QUIET.get() {
                        // The first transaction after an open never commits by one store.
                        return rt.view(|_, _| ()).map(drop);
                    }
                    rt.step(FIRST.get() + i, |tx, root, n| does(tx, root, n))?;
                    OFFERED.set(false);
                    Ok(())
                })?;
            }
            Op::Turns(n) => {
                rt.named(name)
                    .each_step(0..n.into(), first, |tx, root, i, first| {
                        does(tx, root, first + i)
                    })?
            }
            Op::Fail => {
                let failed = rt.named(name).step(first, |tx, root, n| {
                    root.get_mut(tx)?.done = 0;
                    if LOUD.get() {
                        tx.send(&PORT, 99)?;
                    }
                    Err::<(), _>(tx.abort(n as u16))
                });
                super::drivers::is_recorded(failed.map_err(Error::from), first as u16)?;
            }
            Op::Flood => {
                let flooded = rt.named(name).step((), |tx, root, ()| {
                    root.get_mut(tx)?.done = 0;
                    for _ in 0..FLOOD.get() {
                        let _ = tx.send(&PORT, 98);
                    }
                    Ok(())
                });
                match flooded.map_err(Error::from) {
                    Err(Error::OutboxFull) => {}
                    r => panic!("a full outbox: {r:?}"),
                }
            }
            Op::View => _ = rt.view(|_, _| ())?,
        }
        offers(rt);
    }
    Ok(())
}

/// One opening. Whether the program has ended.
fn opening<'m, M: Model, E: Outlet>(
    nv: Region<'m, M>,
    world: &World<'_, Outside>,
    script: &Script,
    mood: Mood,
    env: E,
    arm: fn(&mut E),
) -> (bool, Region<'m, M>)
where
    M::Unit: Width,
{
    let options = Options {
        table: Config {
            bytes: 400,
            outbox_bytes: 240,
            seq_bits: script.bits,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    LOUD.set(mood.loud && mood.radio != Radio::Silent);
    QUIET.set(mood.quiet);
    FLOOD.set(if mood.radio == Radio::Silent { 1 } else { 200 });
    let opened = Rt::<E, M>::open_with(nv, options, env, |_| Ok(Done { done: 0, sent: 0 }));
    let mut rt = opened.unwrap_or_else(|r| panic!("{r}"));
    arm(rt.env());
    let until = script.ops.len().min(mood.ops.into());
    let ran = catch_unwind(AssertUnwindSafe(|| {
        program(&mut rt, world, &script.ops[..until]).expect("only cuts");
        while rt.drain().is_err() {
            assert!(rt.waits());
        }
    }));
    match ran {
        Ok(()) => {}
        Err(why) if why.is::<Unwinds>() => {
            assert_eq!(rt.record(1_u8), Err(Error::LoopInterrupted));
            return (false, rt.close());
        }
        Err(why) => resume_unwind(why),
    }
    if let Some(root) = rt.view(|tx, root| *root.get(tx)).expect("it runs") {
        let received = world.get().received;
        let bits = received.values().fold(0, |bits, step| bits | 1 << step);
        assert_eq!(
            bits & !root.sent,
            0,
            "{received:?} of {root:?}: not committed"
        );
        if world.with(|w| !w.dropped) {
            assert_eq!(bits, root.sent, "{received:?}: a message is missing");
            assert!(
                received.into_keys().eq(0..root.sent.count_ones()),
                "numbers"
            );
        }
    }
    (until == script.ops.len(), rt.close())
}

fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, Outside>, script: &Script)
where
    M::Unit: Width,
{
    let mut region = nv;
    // Opened once more after its end: an open sends what it finds.
    let mut last = false;
    loop {
        let n = world.with(|w| w.openings);
        let mood = script.moods.get(n).copied().unwrap_or(CALM);
        let drops = matches!(mood.radio, Radio::None | Radio::Silent);
        world.update(|w| (w.openings, w.dropped) = (n + 1, w.dropped | drops));
        let ended;
        (ended, region) = if mood.radio == Radio::Silent {
            opening(region, world, script, mood, Silent, |_| {})
        } else {
            let air = Air {
                world,
                radio: mood.radio,
                offers: 0,
                next: None,
                armed: false,
            };
            let env = (mood.radio != Radio::None).then_some(air);
            opening(region, world, script, mood, env, |env| {
                if let Some(air) = env {
                    (air.armed, air.offers) = (true, 0);
                }
            })
        };
        if ended && last {
            return;
        }
        last = ended;
    }
}

fn scripts() -> impl Strategy<Value = Script> {
    let op = prop_oneof![
        3 => Just(Op::Step),
        3 => Just(Op::StepOrInput),
        4 => (1..4_u8).prop_map(Op::Iterations),
        2 => (1..4_u8).prop_map(Op::Turns),
        1 => Just(Op::Fail),
        1 => Just(Op::Flood),
        2 => Just(Op::View),
    ];
    let radio = prop_oneof![
        4 => Just(Radio::Takes),
        2 => (0..255_u8).prop_map(Radio::Busy),
        2 => (0..4_u8).prop_map(Radio::Unwinds),
        1 => Just(Radio::None),
        2 => Just(Radio::Silent),
    ];
    // Whether steps send, and whether there are inputs instead. Most often one or the other, so
    // that what a cut has withdrawn is followed by what sends nothing.
    let steps = prop::sample::select(vec![
        (true, false),
        (true, false),
        (false, true),
        (false, true),
        (true, true),
        (false, false),
    ]);
    let mood = (steps, radio, 0..8_u8);
    let mood = mood.prop_map(|((loud, quiet), radio, ops)| Mood {
        loud,
        quiet,
        radio,
        ops,
    });
    let bits = prop_oneof![2 => Just(3_u8), 1 => 4..8_u8];
    let ops = prop::collection::vec(op, 1..7);
    (bits, ops, prop::collection::vec(mood, 1..5)).prop_map(|(bits, ops, moods)| Script {
        bits,
        ops,
        moods,
    })
}

fn moods<M: Model>(cases: u32)
where
    M::Unit: Width,
{
    let s = random(scripts(), || Mapped::<M>::new(2560), boot::<M>);
    let s = s.cases(programs(cases)).seed(seed()).run();
    println!("{s}");
}

#[test]
fn in_order_32() {
    moods::<InOrder32>(400);
}

#[test]
fn buffered_32() {
    moods::<nv_replay::nvmem::Buffered32>(20);
}
