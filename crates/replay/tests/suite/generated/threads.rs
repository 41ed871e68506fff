//! Threads that share a pool: boxes that change hands, keys, an outbox for each, places that are
//! reserved, start over, or take another version.
//!
//! A script has rounds. In each the region is opened once, some of the three threads go on, and
//! then the round's operations run in their order, each in its thread. A thread's program is all
//! of its operations since its run began: it passes those of earlier rounds before the round's
//! first operation. So what each operation returns is known, `Model` says it. A cut repeats the
//! round, and must lead to the same.
//!
//! What must hold beside that: a message arrives in order, and at most once in each opening; an
//! object lives as long as a record or a root owns it, and is reclaimed when all threads have
//! passed their records; only one thread at a time adopts.

use crate::runs::{programs, seed};
use nv_replay::nvmem::{InOrder32, Persist, Region};
use nv_replay::pmem_tx::{self, Contexts, Preempted, Section, Shared, Sharing};
use nv_replay::{
    Config, Error, Held, Message, NotNow, OpenError, Options, Outlet, PBox, Place, Port, Step,
    Thread, Threads, Update,
};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const THREADS: usize = 3;

#[derive(Clone, Copy, Hash, Debug, PartialEq)]
pub enum Op {
    /// A step of its own.
    Count,
    /// Makes an object, which a record owns.
    Make,
    /// The newest object goes to the board, or ends if the board has one.
    Put,
    /// Takes the object of the board.
    Get,
    /// Makes an object in a loop whose iteration ends: nobody owns it.
    Lose,
    Send,
    /// A step with the key that aborts after it has changed everything and has sent.
    Fail,
    /// A step with the key that unwinds: it leaves no record.
    Unwind,
    /// Lends an object of the next thread to a step: that is refused.
    Foreign,
    /// Gives a step an argument that is in use, as a key may be: that is refused.
    InUse,
}

/// The code with which `Op::Fail` aborts.
const ABORTED: u16 = 3;

impl Op {
    /// Whether it leaves a record. The others happen once, and no replay passes them.
    fn is_recorded(self) -> bool {
        !matches!(self, Op::Unwind | Op::Foreign | Op::InUse)
    }
}

/// How a thread begins a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    Resume,
    /// Its place is not opened.
    Away,
    /// Its place starts over before it is opened.
    Over,
    /// It passes its records, and starts over then.
    OverLater,
    /// It is a new version of its program.
    Version(Update),
}

#[derive(Clone, Debug)]
pub struct Round {
    pub starts: [Start; THREADS],
    pub ops: Vec<(usize, Op)>,
    /// Threads send what waits before they end.
    pub drains: bool,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub bits: u8,
    pub rounds: Vec<Round>,
}

/// What a thread has, as the model knows it.
#[derive(Clone, Hash, Debug, Default)]
pub struct ThreadSeen {
    version: u16,
    /// The operations of its run that have a record, and what they returned.
    run: Vec<(Op, Result<u32, u16>)>,
    n: u32,
    /// The values of the objects that its records own.
    held: Vec<u32>,
    /// All messages that it has sent.
    sent: Vec<u32>,
}

#[derive(Clone, Hash, Debug, Default)]
pub struct Model {
    threads: [ThreadSeen; THREADS],
    /// The board: how often an object came, and the one that is there.
    board: (u32, Option<u32>),
    /// Objects that nobody owns: those that an open may reclaim, and those of this opening.
    lost: [usize; 2],
}

impl Model {
    /// A thread loses the objects and operations behind the first `n`; the objects before it has
    /// passed its records, or `later`.
    fn truncate(&mut self, t: usize, n: usize, later: bool) {
        let thread = &mut self.threads[t];
        let made = |run: &[(Op, _)]| run.iter().filter(|(op, _)| *op == Op::Make).count();
        let gone = made(&thread.run[n..]);
        thread.run.truncate(n);
        let left = thread.held.len().saturating_sub(gone);
        self.lost[usize::from(later)] += thread.held.len() - left;
        thread.held.truncate(left);
    }

    /// A place is opened. Whether its thread runs, and why not.
    fn opens(&mut self, t: usize, start: Start) -> Result<(), OpenError> {
        let thread = &mut self.threads[t];
        let Start::Version(update) = start else {
            match start {
                Start::Over => self.truncate(t, 0, false),
                Start::OverLater => self.truncate(t, 0, true),
                _ => {}
            }
            return Ok(());
        };
        let recorded = thread.version;
        let records = thread.run.len();
        let kept = match update {
            _ if records == 0 => 0,
            Update::Refuse => return Err(OpenError::OtherVersion { recorded }),
            Update::StartOver => 0,
            Update::Keep(n) if usize::from(n) > records => {
                let records = records as u16;
                return Err(OpenError::NoSuchRecord { records });
            }
            Update::Keep(n) => {
                let rest = &thread.run[n.into()..];
                if n > 0 && rest.iter().any(|(op, _)| *op == Op::Put) {
                    return Err(OpenError::Keep(Error::WrongPool));
                }
                n.into()
            }
        };
        thread.version += 1;
        self.truncate(t, kept, false);
        Ok(())
    }

    /// What an operation returns. `None`: it is not called.
    fn op(&mut self, t: usize, op: Op) -> Option<Result<u32, Error>> {
        let next = (t + 1) % THREADS;
        let no_object = match op {
            Op::Put => self.threads[t].held.is_empty(),
            Op::Foreign => self.threads[next].held.is_empty(),
            _ => false,
        };
        if no_object {
            return None;
        }
        let thread = &mut self.threads[t];
        let returns = match op {
            Op::Count | Op::Send => {
                thread.n += 1;
                if op == Op::Send {
                    thread.sent.push(thread.n);
                }
                Ok(thread.n)
            }
            Op::Make => {
                thread.n += 1;
                thread.held.push(thread.n);
                Ok(0)
            }
            Op::Put => {
                let object = thread.held.pop().expect("it has one");
                self.board.0 += 1;
                self.board.1.get_or_insert(object);
                Ok(self.board.0)
            }
            Op::Get => {
                thread.n += self.board.1.take().unwrap_or(0);
                Ok(thread.n)
            }
            Op::Lose => {
                self.lost[1] += 1;
                Ok(0)
            }
            Op::Fail => Err(Error::Aborted(ABORTED)),
            Op::Unwind => Ok(0),
            Op::Foreign => Err(Error::WrongPool),
            Op::InUse => Err(Error::KeyInUse),
        };
        if op.is_recorded() {
            let recorded = returns.map_err(|_| ABORTED);
            thread.run.push((op, recorded));
        }
        Some(returns)
    }
}

/// A root: a number, and perhaps an object.
#[derive(Persist)]
#[repr(C)]
struct Holder<'p> {
    n: u32,
    item: Option<PBox<'p, u32>>,
}

fn empty<'p>() -> Holder<'p> {
    Holder { n: 0, item: None }
}

/// One thread of the host. Counts adoptions.
pub enum Counted {}
// SAFETY: nothing is preempted.
unsafe impl Section for Counted {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    fn exclusive<R>(f: impl FnOnce() -> R) -> R {
        ADOPTED.set(ADOPTED.get() + 1);
        f()
    }
}
std::thread_local! {
    static ADOPTED: Cell<u32> = const { Cell::new(0) };
    /// Whether a body has run in this call.
    static RAN: Cell<bool> = const { Cell::new(false) };
}

pub type On = Preempted<InOrder32, Counted>;
type Own = Holder<'static>;
type Roots = Sharing<(Own,), Contexts<(Own, Own, Own)>>;
type All<'m> = Threads<'m, Roots, On>;
type One<'c, 't> = Thread<'c, Own, On, Radio<'t>>;
type Key<'c> = Shared<'c, Own, u32>;

/// Says of itself that it is in use.
struct InUse;
// SAFETY: it has no handle.
unsafe impl pmem_tx::Arg for InUse {
    type In<'p> = ();
    const TYPE: u64 = 7;
    const OWNED: usize = 0;
    fn of_session(&self, _: u32) -> bool {
        true
    }
    fn in_use(&self) -> bool {
        true
    }
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    fn bytes(&self, _: &mut dyn FnMut(&[u8])) {}
    unsafe fn enter<'p>(&self) -> Self::In<'p> {}
    unsafe fn ended(&self) {}
}

static PORT: Port<u32> = Port::new(1);

/// What is outside, and how far the rounds are.
#[derive(Clone, Hash, Debug, Default)]
pub struct Outside {
    round: usize,
    /// The round was cut before.
    cut: bool,
    /// The threads that have begun their new run.
    begun: [bool; THREADS],
    /// So many operations of the round must never run again.
    returned: usize,
    found: Model,
    received: [Vec<u32>; THREADS],
    attempts: u32,
}

/// A thread's radio, in one opening. It is busy now and then.
struct Radio<'t> {
    world: &'t World<'t, Outside>,
    thread: usize,
    /// The operation that runs.
    now: &'t Cell<usize>,
    /// The number that comes next.
    next: Option<u32>,
}

impl Outlet for Radio<'_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let n = m.get(&PORT).expect("the port").expect("a number");
        let next = *self.next.get_or_insert(m.number);
        assert_eq!(m.number, next, "each message once, and in order");
        self.world.update(|w| w.attempts += 1);
        if self.world.with(|w| w.attempts % 4 > 1) {
            return Err(NotNow);
        }
        let (thread, now) = (self.thread, self.now.get());
        self.world.update(|w| {
            let received = &mut w.received[thread];
            match received.get(m.number as usize) {
                Some(known) => assert_eq!(*known, n, "another message {}", m.number),
                None => {
                    assert_eq!(m.number as usize, received.len(), "a message is missing");
                    received.push(n);
                }
            }
            // It was committed: those before the operation that runs, or that one.
            w.returned = w.returned.max(now);
        });
        self.next = Some(next + 1);
        Ok(())
    }
}

struct Unwinds;

/// A body that does what it may only do once.
fn changes<'p>(
    tx: &Step<'_, 'p, On>,
    own: &mut pmem_tx::Root<'p, Holder<'p>>,
) -> Result<u32, pmem_tx::Error> {
    RAN.set(true);
    let own = own.get_mut(tx)?;
    own.n += 1;
    Ok(own.n)
}

/// Calls an operation. `held` are the objects of all threads.
fn call(
    rt: &mut One<'_, '_>,
    t: usize,
    op: Op,
    held: &mut [Vec<Held<u32>>; THREADS],
    key: &mut Key<'_>,
) -> Result<u32, Error> {
    match op {
        Op::Count => Ok(rt.named(6).step((), |tx, own, ()| changes(tx, own))?),
        Op::Send => Ok(rt.named(1).step((), |tx, own, ()| {
            let n = changes(tx, own)?;
            tx.send(&PORT, n)?;
            Ok(n)
        })?),
        Op::Make => {
            let (replays, adopted) = (!rt.is_live(), ADOPTED.get());
            let object = rt.named(7).step_own::<_, Held<u32>>((), |tx, own, ()| {
                let n = changes(tx, own)?;
                PBox::new(tx, n)
            })?;
            assert!(
                !replays || RAN.get() || ADOPTED.get() > adopted,
                "adopted alone"
            );
            held[t].push(object);
            Ok(0)
        }
        Op::Put => {
            let object = held[t].pop().expect("it has one");
            Ok(rt.step((key, object), |tx, _, (mut board, object)| {
                RAN.set(true);
                let board = board.get_mut(tx)?;
                board.n += 1;
                match board.item {
                    Some(_) => drop(object.into_inner(tx)?),
                    None => board.item = Some(object),
                }
                Ok(board.n)
            })?)
        }
        Op::Get => Ok(rt.step(key, |tx, own, mut board| {
            RAN.set(true);
            let got = match board.get_mut(tx)?.item.take() {
                Some(object) => object.into_inner(tx)?,
                None => 0,
            };
            let own = own.get_mut(tx)?;
            own.n += got;
            Ok(own.n)
        })?),
        Op::Lose => rt
            .each(0..1, |rt, _| {
                drop(rt.named(8).step_own::<_, Held<u32>>((), |tx, _, ()| {
                    RAN.set(true);
                    PBox::new(tx, 1)
                })?);
                Ok(())
            })
            .map(|()| 0),
        Op::Fail => Ok(rt.named(2).step(key, |tx, own, mut board| {
            changes(tx, own)?;
            *board.get_mut(tx)? = Holder { n: 99, item: None };
            tx.send(&PORT, 999)?;
            Err::<u32, _>(tx.abort(ABORTED))
        })?),
        Op::Unwind => {
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let _ = rt.named(3).step(key, |tx, own, mut board| {
                    changes(tx, own)?;
                    board.get_mut(tx)?.n = 98;
                    if tx.send(&PORT, 998).is_ok() {
                        resume_unwind(Box::new(Unwinds));
                    }
                    Ok(())
                });
            }));
            match unwound {
                Err(why) if why.is::<Unwinds>() => RAN.set(false),
                Err(why) => resume_unwind(why),
                Ok(()) => panic!("it unwinds"),
            }
            Ok(0)
        }
        Op::Foreign => {
            let object = held[(t + 1) % THREADS].last_mut().expect("it has one");
            Ok(rt
                .named(4)
                .step(object.lend(), |tx, own, _| changes(tx, own))?)
        }
        Op::InUse => Ok(rt.named(5).step(InUse, |tx, own, ()| changes(tx, own))?),
    }
}

fn open(region: Region<'_, On>, bits: u8) -> All<'_> {
    let table = Config {
        bytes: 600,
        outbox_bytes: 200,
        seq_bits: bits,
    };
    let pool = pmem_tx::Config {
        journal_entries: 8,
        journal_bytes: 64,
        seq_bits: bits,
    };
    All::open(region, table, Some(pool), |_| {
        Ok(((empty(),), (empty(), empty(), empty())))
    })
    .unwrap_or_else(|r| panic!("open: {r}"))
}

pub const BYTES: usize = 6144;

pub fn boot(nv: Region<'_, On>, world: &World<'_, Outside>, script: &Script) {
    let mut region = nv;
    while let Some(round) = script.rounds.get(world.with(|w| w.round)) {
        region = runs(region, world, script.bits, round);
    }
    // Everything once more: all threads pass their records.
    let end = Round {
        starts: [Start::Resume; THREADS],
        ops: vec![],
        drains: true,
    };
    if world.with(|w| w.round == script.rounds.len()) {
        runs(region, world, script.bits, &end);
    }
}

/// Opens the place of a thread as the round says.
fn starts<'c, 't>(
    place: Place<'c, Own, On>,
    start: Start,
    t: usize,
    w: &Outside,
    radio: Radio<'t>,
) -> Result<One<'c, 't>, OpenError> {
    let world = radio.world;
    let over = matches!(start, Start::Over | Start::OverLater);
    let version = w.found.threads[t].version;
    let mut options = Options {
        version,
        ..Options::default()
    };
    if let Start::Version(update) = start {
        (options.version, options.update) = (version + 1, update);
    }
    if !over || w.begun[t] || later(start, t, w) {
        return place.open_with(options, radio);
    }
    let rt = place.start_over()?.open_with(options, radio)?;
    world.update(|w| w.begun[t] = true);
    Ok(rt)
}

/// Whether a thread passes its records, and starts over then. A round that was cut drops them
/// first, because they may be gone.
fn later(start: Start, t: usize, w: &Outside) -> bool {
    start == Start::OverLater && !w.begun[t] && !w.cut
}

/// One round.
fn runs<'m>(
    region: Region<'m, On>,
    world: &World<'_, Outside>,
    bits: u8,
    round: &Round,
) -> Region<'m, On> {
    let w = world.get();
    let mut model = w.found.clone();
    if !w.cut {
        world.update(|w| w.cut = true);
    }
    let now = Cell::new(0);
    let mut all = open(region, bits);
    let mut all_passed = true;
    {
        let ((one, two, three), (mut key,)) = all.share().expect("the first time");
        let mut held = [const { vec![] }; THREADS];
        let places = [one, two, three].into_iter().zip(round.starts);
        let threads = places.enumerate().map(|(t, (place, start))| {
            let records = !model.threads[t].run.is_empty();
            if start == Start::Away {
                all_passed &= !records;
                return None;
            }
            let radio = Radio {
                world,
                thread: t,
                now: &now,
                next: None,
            };
            let opened = starts(place, start, t, &w, radio);
            let wanted = model.opens(t, start);
            let mut rt = match opened {
                Ok(rt) => rt,
                Err(refused) => {
                    assert_eq!(wanted, Err(refused), "thread {t}");
                    all_passed &= !records;
                    return None;
                }
            };
            assert_eq!(wanted, Ok(()), "thread {t}");
            let later = later(start, t, &w);
            let run = if later { &w.found } else { &model };
            for (op, returned) in &run.threads[t].run {
                RAN.set(false);
                let got = call(&mut rt, t, *op, &mut held, &mut key);
                assert_eq!(
                    got,
                    returned.map_err(Error::Aborted),
                    "{op:?} of thread {t}"
                );
                assert!(!RAN.get(), "{op:?} of thread {t} runs again");
            }
            if later {
                rt.start_over().expect("sound");
                held[t].clear();
                world.update(|w| w.begun[t] = true);
            }
            Some(rt)
        });
        let mut threads: Vec<_> = threads.collect();
        for (k, (t, op)) in round.ops.iter().enumerate() {
            // The other thread's object is there only if the thread is.
            if *op == Op::Foreign && threads[(t + 1) % THREADS].is_none() {
                continue;
            }
            let Some(rt) = &mut threads[*t] else { continue };
            let once = !op.is_recorded() && k < w.returned;
            let Some(wanted) = model.op(*t, *op) else {
                continue;
            };
            if once {
                continue;
            }
            now.set(k);
            RAN.set(false);
            let got = call(rt, *t, *op, &mut held, &mut key);
            assert_eq!(got, wanted, "{k}: {op:?} of thread {t}");
            let may = op.is_recorded() && k >= w.returned;
            assert!(may || !RAN.get(), "{k}: {op:?} of thread {t} runs again");
            assert!(RAN.get() || !may || w.cut, "{k}: {op:?} does not run");
            if k >= w.returned {
                world.update(|w| w.returned = k + 1);
            }
        }
        for (t, rt) in threads.iter_mut().enumerate() {
            let Some(rt) = rt else { continue };
            while round.drains && rt.drain().is_err() {
                assert!(rt.waits());
            }
            assert!(rt.is_live());
            let (sent, received) = (&model.threads[t].sent, world.get().received[t].clone());
            let right = sent.starts_with(&received) && (rt.waits() || received.len() == sent.len());
            assert!(right, "thread {t}: {received:?} of {sent:?}");
            let n = rt.view(|tx, own| own.get(tx).n);
            assert_eq!(n, Ok(Some(model.threads[t].n)));
        }
    }
    assert_eq!(all.share().err(), Some(OpenError::Shared));
    let audit = all.audit().expect("sound");
    let held: usize = model.threads.iter().map(|t| t.held.len()).sum();
    if all_passed {
        model.lost[0] = 0;
    }
    let (least, most) = (held + model.lost[0], held + model.lost[0] + model.lost[1]);
    // A cut loses objects before the open.
    let exact = !w.cut || model.lost == [0; 2];
    let right = audit.unreachable == most || !exact && (least..=most).contains(&audit.unreachable);
    assert!(right, "{audit:?}, {held} held, {:?} lost", model.lost);
    model.lost = [audit.unreachable - held, 0];
    world.update(|w| {
        (w.round, w.cut, w.begun, w.returned) = (w.round + 1, false, [false; THREADS], 0);
        w.found = model;
    });
    all.close()
}

fn scripts() -> impl Strategy<Value = Script> {
    use Op::*;
    let ops = prop::sample::select(vec![
        Count, Make, Make, Make, Put, Put, Get, Lose, Send, Send, Send, Fail, Unwind, Foreign,
        InUse,
    ]);
    let update = prop_oneof![
        1 => Just(Update::Refuse),
        1 => Just(Update::StartOver),
        4 => (0..3_u16).prop_map(Update::Keep),
    ];
    let start = prop_oneof![
        6 => Just(Start::Resume),
        2 => Just(Start::Away),
        1 => Just(Start::Over),
        1 => Just(Start::OverLater),
        3 => update.prop_map(Start::Version),
    ];
    let starts = prop::array::uniform3(start);
    let ops = prop::collection::vec((0..THREADS, ops), 0..9);
    let rounds = (starts, ops, any::<bool>()).prop_map(|(starts, ops, drains)| Round {
        starts,
        ops,
        drains,
    });
    let bits = prop_oneof![2 => Just(3_u8), 1 => 4..8_u8];
    (bits, prop::collection::vec(rounds, 1..6)).prop_map(|(bits, rounds)| Script { bits, rounds })
}

#[test]
fn several_threads() {
    let s = random(scripts(), || Mapped::<On>::new(BYTES), boot);
    let s = s.cases(programs(140)).seed(seed()).run();
    println!("{s}");
}
