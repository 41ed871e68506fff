//! Tagged words and two-version cells under power cuts: two threads, rounds of 4 to 6 bits, aborts,
//! numbers without a sweep, an interrupt that publishes, and a thread that preempts the other.

use nvmem::tagged::{Cells, Stamp, TagError, Widths, Words};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region, Unit, mapped};
use powerfail::{Explore, Mapped, Summary, World, explore_with, masked};
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// A 16-bit core behind a write buffer.
enum Buffered16 {}
// SAFETY: the fence is the kit's, and nothing else.
unsafe impl Model for Buffered16 {
    type Unit = u16;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-16";
}

const WORDS: usize = 5;
const CELLS: usize = 3;

/// Not any bits are a value, and it has padding.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
struct Pair {
    n: u16,
    odd: bool,
    twice: u32,
}

impl Pair {
    fn of(n: u32) -> Pair {
        Pair {
            n: n as u16,
            odd: n % 2 == 1,
            twice: 2 * n,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Word(usize, u32),
    Cell(usize, u32),
}

/// What a thread or an interrupt does.
#[derive(Debug, Clone)]
enum Event {
    /// A transaction that commits.
    Commit(u32, Vec<Change>),
    /// A transaction that sets nothing and calls no sweep: a record, or a turn of a loop.
    Number(u32),
    Abort(u32, Vec<Change>),
    Publish(Change),
}

/// Where the harness is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    SweepAfterCommit,
    NoSweep,
    NoFenceBeforeCommit,
}

#[derive(Debug, Clone)]
struct Plan {
    sequence: u8,
    /// The numbers of the two threads before the first event.
    start: [u32; 2],
    events: Vec<Event>,
    wrong: Wrong,
}

impl Plan {
    fn words(&self) -> Widths {
        Widths {
            sequence: self.sequence,
            owner: 1,
            state: 4,
        }
    }
    fn cells(&self) -> Widths {
        Widths {
            state: 1,
            ..self.words()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Content {
    words: [u32; WORDS],
    cells: [u32; CELLS],
}

impl Content {
    fn change(&mut self, c: Change) {
        match c {
            Change::Word(i, v) => self.words[i] = v,
            Change::Cell(i, v) => self.cells[i] = v,
        }
    }

    /// After this event.
    fn after(mut self, e: &Event) -> Content {
        match e {
            Event::Commit(_, changes) => changes.iter().for_each(|c| self.change(*c)),
            Event::Publish(c) => self.change(*c),
            Event::Number(_) | Event::Abort(..) => {}
        }
        self
    }
}

/// The two commit words, words and cells in one region.
struct Opened<'m, M: Model> {
    commits: Region<'m, M>,
    words: Words<'m, M>,
    cells: Cells<'m, M, Pair>,
    /// The number of each thread's last sweep.
    swept: [u32; 2],
}

fn bytes<M: Model>() -> usize {
    8 + Words::<M>::bytes(WORDS) + Cells::<M, Pair>::bytes(CELLS)
}

fn last<M: Model>(commits: &Region<'_, M>) -> impl Fn(u32) -> Option<u32> + use<M> {
    // SAFETY: inside, aligned, and nothing is lent.
    let of = [0, 1].map(|o| unsafe { commits.load(o * M::Unit::BYTES) });
    move |o| of.get(o as usize).copied()
}

fn split<M: Model>(nv: Region<'_, M>) -> [Region<'_, M>; 3] {
    let (commits, rest) = nv.split_at(8).map_err(|e| e.0).unwrap();
    let at = Words::<M>::bytes(WORDS);
    let (words, cells) = rest.split_at(at).map_err(|e| e.0).unwrap();
    [commits, words, cells]
}

impl<'m, M: Model> Opened<'m, M> {
    fn open(nv: Region<'m, M>, plan: &Plan) -> Self {
        let [commits, words, cells] = split(nv);
        let last = last(&commits);
        let words = Words::recover(words, WORDS, plan.words(), &last).unwrap();
        let cells = Cells::recover(cells, CELLS, plan.cells(), &last).unwrap();
        let swept = [last(0).unwrap(), last(1).unwrap()];
        Opened {
            commits,
            words,
            cells,
            swept,
        }
    }

    fn content(&self) -> Content {
        let last = last(&self.commits);
        let mut c = Content::default();
        for (i, to) in c.words.iter_mut().enumerate() {
            *to = self.words.get(i, &last).unwrap();
        }
        for (i, to) in c.cells.iter_mut().enumerate() {
            let pair = self.cells.get(i, &last).unwrap();
            assert_eq!(pair, Pair::of(pair.n.into()), "a torn value");
            *to = pair.n.into();
        }
        c
    }

    fn stamp(&self, plan: &Plan, owner: u32) -> Stamp {
        let last = last(&self.commits)(owner).unwrap();
        Stamp {
            owner,
            sequence: plan.words().next(last),
        }
    }

    fn set(&mut self, stamp: Stamp, c: Change) -> Result<(), TagError> {
        let last = last(&self.commits);
        match c {
            Change::Word(i, v) => {
                self.words.set(i, stamp, v, last)?;
                assert_eq!(self.words.staged(i, stamp), Ok(Some(v)));
            }
            Change::Cell(i, v) => {
                self.cells.set(i, stamp, Pair::of(v), last)?;
                assert_eq!(self.cells.staged(i, stamp), Ok(Some(Pair::of(v))));
            }
        }
        Ok(())
    }

    /// Like `set`, sometimes as a caller who keeps the committed states, where no other thread
    /// runs: it sets a word once in a transaction.
    fn put(&mut self, stamp: Stamp, c: Change) -> Result<(), TagError> {
        match c {
            Change::Word(i, v) if v % 2 == 0 && self.words.staged(i, stamp) == Ok(None) => {
                let before = self.words.get(i, last(&self.commits))?;
                self.words.put(i, stamp, before, v)?;
                assert_eq!(self.words.staged(i, stamp), Ok(Some(v)));
                Ok(())
            }
            Change::Cell(i, v) if v % 2 == 0 && self.cells.staged(i, stamp)?.is_none() => {
                self.cells.put(i, stamp, Pair::of(v))?;
                assert_eq!(self.cells.staged(i, stamp), Ok(Some(Pair::of(v))));
                Ok(())
            }
            c => self.set(stamp, c),
        }
    }

    fn sweep(&mut self, stamp: Stamp) {
        let since = &mut self.swept[stamp.owner as usize];
        self.words.sweep(stamp, *since).unwrap();
        self.cells.sweep(stamp, *since).unwrap();
        *since = stamp.sequence;
    }

    fn commit(&mut self, stamp: Stamp, wrong: Wrong) {
        if !matches!(wrong, Wrong::SweepAfterCommit | Wrong::NoSweep) {
            self.sweep(stamp);
        }
        self.commit_number(stamp, wrong);
        if wrong == Wrong::SweepAfterCommit {
            self.sweep(stamp);
            mapped::fence::<M>();
        }
    }

    fn commit_number(&mut self, stamp: Stamp, wrong: Wrong) {
        if wrong != Wrong::NoFenceBeforeCommit {
            mapped::fence::<M>();
        }
        let at = stamp.owner as usize * M::Unit::BYTES;
        // SAFETY: inside, aligned, and nothing is lent.
        unsafe { self.commits.store(at, stamp.sequence) }
        mapped::fence::<M>();
    }

    fn run(&mut self, plan: &Plan, e: &Event) {
        match e {
            Event::Commit(owner, changes) => {
                let stamp = self.stamp(plan, *owner);
                for c in changes {
                    self.put(stamp, *c).unwrap();
                }
                self.commit(stamp, plan.wrong);
            }
            Event::Number(owner) => {
                let stamp = self.stamp(plan, *owner);
                self.commit_number(stamp, plan.wrong);
            }
            Event::Abort(owner, changes) => {
                let stamp = self.stamp(plan, *owner);
                for c in changes {
                    self.put(stamp, *c).unwrap();
                }
                self.words.revert(stamp).unwrap();
                self.cells.revert(stamp).unwrap();
            }
            Event::Publish(c) => {
                let last = last(&self.commits);
                match *c {
                    Change::Word(i, v) if v % 2 == 0 => self.words.put_settled(i, v).unwrap(),
                    Change::Cell(i, v) if v % 2 == 0 => {
                        self.cells.put_settled(i, Pair::of(v)).unwrap()
                    }
                    Change::Word(i, v) => self.words.publish(i, v, last).unwrap(),
                    Change::Cell(i, v) => self.cells.publish(i, Pair::of(v), last).unwrap(),
                }
            }
        }
    }
}

/// One boot. The world holds the number of events that it has seen.
fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, usize>, plan: &Plan) {
    let mut opened = Opened::open(nv, plan);
    let seen = world.get();
    let mut expected = Content::default();
    let mut numbers = plan.start;
    let mut number = |e: &Event| {
        if let Event::Commit(o, _) | Event::Number(o) = e {
            let n = &mut numbers[*o as usize];
            *n = plan.words().next(*n);
            Some((*o, *n))
        } else {
            None
        }
    };
    for e in &plan.events[..seen] {
        number(e);
        expected = expected.after(e);
    }
    // The next event may have taken effect before the cut.
    let mut at = seen;
    if let Some(e) = plan.events.get(seen) {
        let after = expected.clone().after(e);
        let happened = match number(e) {
            Some((o, n)) => last(&opened.commits)(o) == Some(n),
            None => opened.content() == after,
        };
        if happened {
            expected = after;
            at += 1;
        }
    }
    assert_eq!(opened.content(), expected, "after {at} events");
    world.acknowledge(at);
    while let Some(e) = plan.events.get(at) {
        opened.run(plan, e);
        expected = expected.after(e);
        at += 1;
        assert_eq!(opened.content(), expected, "after {at} events");
        world.acknowledge(at);
    }
}

fn memory<M: Model>() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); bytes::<M>() / 8]
}

fn image<M: Model>(plan: &Plan) -> Vec<u8> {
    let mut memory = memory::<M>();
    let [commits, words, cells] = split(Region::<M>::new(&mut memory));
    for (o, n) in plan.start.into_iter().enumerate() {
        // SAFETY: inside, aligned, and nothing is lent.
        unsafe { commits.store(o * M::Unit::BYTES, n) }
    }
    Words::format(words, WORDS, plan.words()).unwrap();
    Cells::format(cells, CELLS, plan.cells(), Pair::of(0)).unwrap();
    // SAFETY: initialised above; a cell's padding is written as zeros.
    let words = memory.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

fn campaign<M: Model>(plan: Plan) -> Explore<Mapped<M>, usize> {
    let nv = Mapped::<M>::with_image(image::<M>(&plan));
    explore_with(plan, nv, |nv, w, plan| boot::<M>(nv, w, plan)).limit(64)
}

/// A plan of `n` events, from a seed.
fn plan(sequence: u8, start: [u32; 2], n: usize, seed: u32) -> Plan {
    let mut x = seed;
    let mut random = move |below: u32| {
        x = x.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
        (x >> 16) % below
    };
    let mut value = 0;
    let mut change = move |random: &mut dyn FnMut(u32) -> u32| {
        value += 1;
        if random(2) == 0 {
            Change::Word(random(WORDS as u32) as usize, value % 16)
        } else {
            Change::Cell(random(CELLS as u32) as usize, value)
        }
    };
    let mut unswept = [0; 2];
    let widths = Widths {
        sequence,
        owner: 1,
        state: 4,
    };
    let events = (0..n)
        .map(|_| {
            let owner = random(2);
            let gap = &mut unswept[owner as usize];
            match random(8) {
                0 => Event::Publish(change(&mut random)),
                1 => Event::Abort(owner, vec![change(&mut random), change(&mut random)]),
                2..4 if *gap < widths.max_unswept() => {
                    *gap += 1;
                    Event::Number(owner)
                }
                r => {
                    *gap = 0;
                    let changes = (0..r % 3).map(|_| change(&mut random)).collect();
                    Event::Commit(owner, changes)
                }
            }
        })
        .collect();
    Plan {
        sequence,
        start,
        events,
        wrong: Wrong::Nothing,
    }
}

/// Each object is set once, and then numbers pass without another change for more than a round:
/// what is not swept reads as in doubt. `skip` numbers of each sweep's have none.
fn quiet_round(sequence: u8, first: u32, skip: u32) -> Plan {
    let set = |i: u32| {
        let (w, c) = (i as usize % WORDS, i as usize % CELLS);
        vec![Change::Word(w, i % 15 + 1), Change::Cell(c, i + 1)]
    };
    let mut events: Vec<_> = (0..WORDS as u32)
        .map(|i| Event::Commit(0, set(i)))
        .collect();
    let round = 1 << sequence;
    while events.len() < round + WORDS + 3 {
        for _ in 0..skip {
            events.push(Event::Number(0));
        }
        events.push(Event::Commit(0, vec![]));
    }
    Plan {
        sequence,
        start: [first, 2],
        events,
        wrong: Wrong::Nothing,
    }
}

fn sum(all: impl IntoIterator<Item = Summary>) -> u64 {
    let s = all.into_iter().fold(Summary::default(), |a, b| a + b);
    println!("{s}");
    assert!(s.partial || s.cuts > 1000, "{s}");
    s.cuts
}

fn random_plans<M: Model>() -> u64 {
    // Miri is slow.
    let (plans, events) = if cfg!(miri) { (1, 6) } else { (8, 24) };
    let plans = (0..plans).map(|seed| {
        let sequence = 4 + (seed % 3) as u8;
        let max = (1 << sequence) - 1;
        plan(sequence, [max - seed, seed], events, seed)
    });
    sum(plans.map(|p| campaign::<M>(p).depth(2).max_depth(2).run()))
}

#[test]
fn random_plans_at_depth_2() {
    let cuts = random_plans::<InOrder16>()
        + random_plans::<InOrder32>()
        + random_plans::<Buffered16>()
        + random_plans::<Buffered32>();
    println!("tagged.cuts {cuts}");
}

fn rounds<M: Model>() -> u64 {
    let mut all = Summary::default();
    for (sequence, skip) in [(4, 0), (4, 6), (5, 3)] {
        // The round begins at each number, so each object has each number once.
        for first in [0, 1, 6, 7, 13, 14, 15] {
            all = all + campaign::<M>(quiet_round(sequence, first, skip)).run();
        }
    }
    sum([all])
}

#[test]
#[cfg_attr(miri, ignore = "the same code as in the random plans")]
fn numbers_come_round() {
    rounds::<InOrder16>();
    rounds::<Buffered32>();
}

#[test]
#[cfg_attr(miri, ignore = "the same code as in the random plans")]
fn three_cuts_deep() {
    for sequence in [4, 5] {
        let p = plan(sequence, [(1 << sequence) - 2, 3], 7, 5);
        sum([
            campaign::<InOrder16>(p.clone()).depth(3).run(),
            campaign::<Buffered32>(p).depth(3).run(),
        ]);
    }
}

/// A harness that never sweeps, or forgets a fence, must fail. One whose sweep a cut can take away
/// does not: the next `recover` settles every word.
#[test]
#[cfg_attr(miri, ignore = "a quick look does not find them")]
fn a_wrong_order_is_found() {
    let fails = |wrong| {
        let plans = [0, 1, 6, 7, 13, 14, 15].map(|first| Plan {
            wrong,
            ..quiet_round(4, first, 0)
        });
        plans
            .into_iter()
            .any(|p| campaign::<Buffered32>(p).try_run().is_err())
    };
    assert!(!fails(Wrong::Nothing));
    assert!(!fails(Wrong::SweepAfterCommit));
    assert!(fails(Wrong::NoSweep));
    assert!(fails(Wrong::NoFenceBeforeCommit));
}

/// Commits of the two threads, as the world has seen them.
type Seen = [u32; 2];

/// The words of the program in which thread 1 preempts thread 0: how often each has committed
/// (modulo 16), how often with the shared word, and the shared word itself.
const SHARED: usize = 4;

#[derive(Debug, Clone)]
struct Preemption {
    plan: Plan,
    low: u32,
    high: u32,
}

/// One transaction: counts up the thread's own word, the shared word if nobody else holds it, and
/// cell `owner`. Each call that stores is one critical section.
fn count<M: Model>(o: &RefCell<Opened<'_, M>>, plan: &Plan, owner: u32, abort: bool) {
    let section = |f: &mut dyn FnMut(&mut Opened<'_, M>)| masked(|| f(&mut o.borrow_mut()));
    let (stamp, last) = masked(|| {
        let o = o.borrow();
        (o.stamp(plan, owner), last(&o.commits))
    });
    let me = owner as usize;
    let up = |v: u32| (v + 1) % 16;
    let last = &last;
    section(&mut |o| {
        let n = o.words.get(me, last).unwrap();
        o.set(stamp, Change::Word(me, up(n))).unwrap();
    });
    section(&mut |o| {
        // The other thread may have committed meanwhile: ask again.
        let last = crate::crash_tagged::last(&o.commits);
        let n = o.words.get(SHARED, &last).unwrap();
        match o.set(stamp, Change::Word(SHARED, up(n))) {
            Ok(()) => {
                let n = o.words.get(2 + me, &last).unwrap();
                o.set(stamp, Change::Word(2 + me, up(n))).unwrap();
            }
            Err(e) => assert_eq!(e, TagError::Busy),
        }
    });
    section(&mut |o| {
        let n = u32::from(o.cells.get(me, last).unwrap().n);
        o.set(stamp, Change::Cell(me, n + 1)).unwrap();
    });
    if abort {
        section(&mut |o| {
            o.words.revert(stamp).unwrap();
            o.cells.revert(stamp).unwrap();
        });
        return;
    }
    section(&mut |o| o.sweep(stamp));
    section(&mut |o| o.commit_number(stamp, Wrong::Nothing));
}

fn preempted<M: Model>(nv: Region<'_, M>, world: &World<'_, Seen>, p: &Preemption) {
    let plan = &p.plan;
    let opened = RefCell::new(Opened::open(nv, plan));
    let check = |at_open: bool| {
        let o = opened.borrow();
        let (c, last) = (o.content(), last(&o.commits));
        let committed = [0, 1].map(|o: usize| {
            let max = plan.words().max_sequence();
            (last(o as u32).unwrap() + max - plan.start[o]) % max
        });
        for (o, n) in committed.into_iter().enumerate() {
            let seen = world.get()[o];
            assert!(n == seen || at_open && n == seen + 1);
            assert_eq!((c.words[o], c.cells[o]), (n % 16, n));
        }
        assert_eq!(c.words[SHARED], (c.words[2] + c.words[3]) % 16, "{c:?}");
        committed
    };
    world.set(check(true));
    let one = |owner: u32, abort: bool| {
        count(&opened, plan, owner, abort);
        if !abort {
            world.update(|seen| seen[owner as usize] += 1);
        }
    };
    world.interrupted(
        || {
            while world.get()[1] < p.high {
                one(1, false);
            }
        },
        || {
            one(0, true);
            while world.get()[0] < p.low {
                one(0, false);
            }
        },
    );
    check(false);
}

fn preemption<M: Model>(sequence: u8, high: u32, depth: u32) -> Summary {
    let p = Preemption {
        plan: plan(sequence, [(1 << sequence) - 2, 5], 0, 0),
        low: 3,
        high,
    };
    let image = image::<M>(&p.plan);
    explore_with(p, Mapped::<M>::with_image(image), |nv, w, p| {
        preempted::<M>(nv, w, p)
    })
    .limit(32)
    .depth(depth)
    .max_depth(depth)
    .preempt()
    .run()
}

/// One thread preempts the other at each store; for a transaction, and for more than a round.
#[test]
#[cfg_attr(miri, ignore = "the same code as in the random plans")]
fn one_thread_preempts_the_other() {
    let s = [
        preemption::<InOrder16>(4, 2, 2),
        preemption::<InOrder32>(5, 2, 2),
        preemption::<Buffered16>(4, 1, 1),
        preemption::<Buffered32>(6, 2, 1),
        preemption::<Buffered32>(4, 12, 1),
    ];
    let cuts = sum(s);
    println!("tagged.preempted_cuts {cuts}");
}
