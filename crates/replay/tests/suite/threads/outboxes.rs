//! Threads that send: each has an outbox, both have one radio and one log.
//!
//! ```text
//!  logger   a line of the log in a step, sent   \            while one of them sends, the radio
//!                                                >-- radio   refuses what the other one has
//!  meter    the same, and a value of its own    /
//! ```
//!
//! The receiver has all that the radio has sent. So in each life it checks:
//!
//! - no message is lost, and no message of a step that did not commit is sent;
//! - those of a thread come in order, and a number has one content;
//! - a message comes again only in a later life, and only if its step had not returned, or had left
//!   it waiting.

use super::kit::{Buffered16, Lock, On, told};
use crate::turns::{deep, in_turn};
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Contexts, Shared, Sharing, Width};
use nv_replay::{Config, Error, Message, NotNow, Options, Outlet, Place, Port, Thread, Threads};
use powerfail::{Mapped, Summary, World, explore_with};
use std::cell::Cell;
use std::collections::BTreeSet;

/// A message: how many its thread has sent, and the line of the log or 0.
type Line = [u16; 2];
static PORTS: [Port<Line>; 2] = [Port::new(1), Port::new(2)];

/// The log counts its lines, and each thread its messages.
type Roots = Sharing<(u32,), Contexts<(u32, u32)>>;
type All<'m, M> = Threads<'m, Roots, M>;
type One<'c, 't, M> = Thread<'c, u32, M, Radio<'t>>;
type Key<'c, M> = Shared<'c, u32, <M as Model>::Unit>;

/// What is explored.
#[derive(Debug, Clone, Copy)]
struct Case {
    seq_bits: u8,
    /// In which of 32 calls the radio refuses a message by itself.
    busy: u32,
    /// A thread sends all that waits before it ends. Otherwise the next open sends it.
    drains: bool,
}

/// What the receiver knows.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Air {
    /// The messages of each thread, by their number.
    received: [Vec<Line>; 2],
    /// How many of them may not come again.
    settled: [usize; 2],
}

/// The one radio, in one life.
struct Channel {
    busy: u32,
    calls: Cell<u32>,
    sending: Cell<bool>,
}

/// How a thread uses the radio.
#[derive(Clone, Copy)]
struct Radio<'t> {
    me: usize,
    channel: &'t Channel,
    world: &'t World<'t, Air>,
    /// The number that must come next in this life.
    next: Option<u32>,
}

impl Outlet for Radio<'_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let line = m.get(&PORTS[self.me]).expect("its port").expect("a line");
        let next = *self.next.get_or_insert(m.number);
        assert_eq!(m.number, next, "{}: {line:?}", self.me);
        if self.channel.sending.replace(true) {
            return Err(NotNow);
        }
        let call = self.channel.calls.get();
        self.channel.calls.set(call + 1);
        let refused = self.channel.busy >> (call % 32) & 1 != 0;
        if !refused {
            self.transmit(m.number as usize, line);
            self.next = Some(next + 1);
        }
        self.channel.sending.set(false);
        if refused { Err(NotNow) } else { Ok(()) }
    }
}

impl Radio<'_> {
    /// The other thread may run before the receiver has the message.
    fn transmit(&self, number: usize, line: Line) {
        self.world.update(|air| {
            let received = &mut air.received[self.me];
            match received.get(number) {
                Some(known) => {
                    assert_eq!(*known, line, "another message {number}");
                    let settled = air.settled[self.me];
                    assert!(
                        number >= settled,
                        "message {number} again, {settled} settled"
                    );
                }
                None => {
                    assert_eq!(number, received.len(), "a message is missing");
                    received.push(line);
                }
            }
        });
    }

    /// No message waits: what was received will not come again.
    fn settle(&self) {
        let (settled, received) = self
            .world
            .with(|air| (air.settled[self.me], air.received[self.me].len()));
        if settled < received {
            self.world.update(|air| air.settled[self.me] = received);
        }
    }
}

/// Between two steps.
fn settle<M: Model>(rt: &mut One<'_, '_, M>)
where
    M::Unit: Width,
{
    if !rt.waits() {
        rt.env().settle();
    }
}

/// Enters lines in the log, and sends each.
fn log<M: Model>(
    rt: &mut One<'_, '_, M>,
    lines: u16,
    key: &Lock<Key<'_, M>>,
    wait: &dyn Fn(),
) -> Result<(), Error>
where
    M::Unit: Width,
{
    let me = rt.env().me as u16;
    {
        let key = &mut *key.lock(wait);
        rt.step((key, me, lines), |tx, sent, (mut log, me, lines)| {
            for _ in 0..lines {
                *sent.get_mut(tx)? += 1;
                *log.get_mut(tx)? += 1;
                let line = [*sent.get(tx) as u16, *log.get(tx) as u16];
                tx.send(&PORTS[usize::from(me)], line)?;
            }
            Ok(())
        })?;
    }
    settle(rt);
    Ok(())
}

/// Fails to log a line, and then logs two in one step.
fn logger<M: Model>(
    rt: &mut One<'_, '_, M>,
    key: &Lock<Key<'_, M>>,
    wait: &dyn Fn(),
) -> Result<(), Error>
where
    M::Unit: Width,
{
    {
        let key = &mut *key.lock(wait);
        let failed = rt.step(key, |tx, sent, mut log| {
            (*sent.get_mut(tx)?, *log.get_mut(tx)?) = (999, 999);
            tx.send(&PORTS[0], [999; 2])?;
            Err::<(), _>(tx.abort(1))
        });
        assert_eq!(failed.map_err(|f| f.error), Err(Error::Aborted(1)));
    }
    settle(rt);
    log(rt, 2, key, wait)
}

/// Sends a value of its own if it comes before the logger, then logs a line. So a step that was cut
/// may send nothing when it is executed again.
fn meter<M: Model>(
    rt: &mut One<'_, '_, M>,
    key: &Lock<Key<'_, M>>,
    wait: &dyn Fn(),
) -> Result<(), Error>
where
    M::Unit: Width,
{
    {
        let key = &mut *key.lock(wait);
        rt.step(key, |tx, sent, log| {
            if *log.get(tx) == 0 {
                *sent.get_mut(tx)? += 1;
                tx.send(&PORTS[1], [1, 0])?;
            }
            Ok(())
        })?;
    }
    settle(rt);
    log(rt, 1, key, wait)
}

/// Lines of the log at the end.
const LINES: u32 = 3;

const BYTES: usize = 1024;

fn open<'m, M: Model>(region: Region<'m, M>, case: &Case) -> All<'m, M>
where
    M::Unit: Width,
{
    let table = Config {
        bytes: 56,
        outbox_bytes: 40,
        seq_bits: case.seq_bits,
    };
    let pool = pmem_tx::Config {
        journal_entries: 6,
        journal_bytes: 48,
        seq_bits: case.seq_bits,
    };
    let all = All::<M>::open(region, table, Some(pool), |_| Ok(((0,), (0, 0))));
    all.unwrap_or_else(|r| panic!("open: {r}"))
}

fn start<'c, 't, M: Model>(
    place: Place<'c, u32, M>,
    me: usize,
    channel: &'t Channel,
    world: &'t World<'t, Air>,
) -> One<'c, 't, M>
where
    M::Unit: Width,
{
    let radio = Radio {
        me,
        channel,
        world,
        next: None,
    };
    place.open_with(Options::default(), radio).unwrap()
}

/// Offers what waits until nothing does.
fn drain<M: Model>(rt: &mut One<'_, '_, M>, wait: &dyn Fn())
where
    M::Unit: Width,
{
    let mut tries = 0;
    while let Err(NotNow) = rt.drain() {
        assert!(rt.waits());
        wait();
        tries += 1;
        assert!(tries < 100, "the radio is not always busy");
    }
    assert!(!rt.waits());
    rt.env().settle();
}

fn program<M: Model>(nv: Region<'_, M>, world: &World<'_, Air>, case: &Case)
where
    M::Unit: Width,
{
    let mut all = open::<M>(nv, case);
    let channel = &Channel {
        busy: case.busy,
        calls: Cell::new(0),
        sending: Cell::new(false),
    };
    let counts = {
        let ((one, two), (key,)) = all.share().unwrap();
        let key = &Lock::new(key);
        let counts = &Cell::new([0; 2]);
        world.threads(|t| {
            let end = |mut rt: One<'_, '_, M>, wait: &dyn Fn()| {
                let me = rt.env().me;
                let sent = rt.view(|tx, sent| *sent.get(tx)).unwrap();
                let mut all = counts.get();
                all[me] = sent.expect("it has passed its records");
                counts.set(all);
                if case.drains {
                    drain(&mut rt, wait);
                }
            };
            t.spawn("logger", 0, move || {
                let wait = || t.yield_now();
                let mut rt = start(one, 0, channel, world);
                settle(&mut rt);
                logger(&mut rt, key, &wait).unwrap();
                end(rt, &wait);
            });
            t.spawn("meter", 0, move || {
                let wait = || t.yield_now();
                let mut rt = start(two, 1, channel, world);
                settle(&mut rt);
                meter(&mut rt, key, &wait).unwrap();
                end(rt, &wait);
            });
        });
        counts.get()
    };
    if !case.drains {
        // Only outlets here, and no program: what an ended thread has left is sent.
        all = open(all.close(), case);
        let ((one, two), _) = all.share().unwrap();
        drain(&mut start(one, 0, channel, world), &|| {});
        drain(&mut start(two, 1, channel, world), &|| {});
    }
    let audit = all.audit().unwrap();
    assert_eq!((audit.blocks, audit.unreachable), (3, 0), "{audit:?}");
    let received = world.with(|air| air.received.clone());
    let mut lines = BTreeSet::new();
    for (of_thread, count) in received.iter().zip(counts) {
        let sent = of_thread.iter().map(|line| u32::from(line[0]));
        assert!(sent.eq(1..=count), "{counts:?} {received:?}");
        let logged = of_thread.iter().filter(|line| line[1] != 0);
        lines.extend(logged.map(|line| u32::from(line[1])));
    }
    assert!(lines.into_iter().eq(1..=LINES), "{received:?}");
}

fn campaign<M: Model>(case: Case, depth: u32) -> Summary
where
    M::Unit: Width,
{
    explore_with(case, Mapped::<M>::new(BYTES), |nv, w, case| {
        program::<M>(nv, w, case)
    })
    .name(&format!("outboxes {} {case:?}", M::NAME))
    .limit(24)
    .depth(depth)
    .max_depth(depth)
    .preemptions(1)
    .run()
}

/// The radio refuses only while the other thread sends.
const FREE: Case = Case {
    seq_bits: 4,
    busy: 0,
    drains: true,
};
/// It refuses more often, so that messages of several steps wait.
const BUSY: Case = Case {
    busy: 0b0000_0101,
    ..FREE
};
/// Threads end while messages wait.
const ENDS: Case = Case {
    busy: 0b0001_1111,
    drains: false,
    ..FREE
};

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn a_radio_that_the_other_thread_uses() {
    let case = [4, 5, 6, 4].map(|seq_bits| Case { seq_bits, ..FREE });
    let all = [
        campaign::<On<InOrder32>>(case[0], in_turn(0, 2)),
        campaign::<On<InOrder16>>(case[1], in_turn(1, 2)),
        campaign::<On<Buffered32>>(case[2], deep()),
        campaign::<On<Buffered16>>(case[3], deep()),
    ];
    told("outboxes_free", 20_000, &all);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn a_busy_radio() {
    let all = [
        campaign::<On<InOrder32>>(BUSY, deep()),
        campaign::<On<Buffered16>>(BUSY, deep()),
    ];
    told("outboxes_busy", 10_000, &all);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn threads_end_while_messages_wait() {
    let all = [
        campaign::<On<InOrder16>>(ENDS, deep()),
        campaign::<On<Buffered32>>(ENDS, deep()),
    ];
    told("outboxes_ended", 10_000, &all);
}
