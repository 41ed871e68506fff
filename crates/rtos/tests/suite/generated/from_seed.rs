//! What makes programs from a seed. Each kind of programs has its own shape: what one finds, others
//! come to seldom.

use super::program::*;
use powerfail::Rng;

/// What threads do in their steps.
#[derive(Clone, Copy, PartialEq)]
pub enum What {
    Small,
    Large,
    Slot,
    Queue,
    Flags,
    Timers,
    Time,
    Priority,
    Abort,
    Spawn,
    Notify,
    Made,
    Events,
}

const ALL: [What; 13] = [
    What::Small,
    What::Large,
    What::Slot,
    What::Queue,
    What::Flags,
    What::Timers,
    What::Time,
    What::Priority,
    What::Abort,
    What::Spawn,
    What::Notify,
    What::Made,
    What::Events,
];

const KINDS: [Kind; 5] = [
    Kind::Semaphore,
    Kind::Queue,
    Kind::Group,
    Kind::Timer,
    Kind::Mutex,
];

/// What the auditor does: joins the others, and empties every object.
fn audit() -> Vec<Act> {
    let now = Some(0);
    let mut acts: Vec<Act> = (0..AUDITOR as u8).map(Act::Join).collect();
    acts.push(Act::Join(WORKER as u8));
    acts.push(Act::Loop(5, vec![Op::Receive(1, now); 7]));
    let rest = [
        Op::Take(0, now),
        Op::Receive(0, now),
        Op::Flags(0, 0xff, false, now),
        Op::Receive(0x11, now),
        Op::Take(0x11, now),
    ];
    acts.extend(rest.map(|op| Act::Step(vec![op], false)));
    acts.push(Act::Loop(4, vec![Op::Take(1, now); 16]));
    acts
}

/// Makes the acts of one thread after the other.
struct Maker {
    rng: Rng,
    what: Vec<What>,
    me: usize,
    /// What is made and deleted: few kinds, so that it is used, too.
    kind: Kind,
    /// Whether a thread that is spawned may be aborted. Then nobody waits for its place.
    kills: bool,
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
    fn flags(&mut self) -> u8 {
        self.below(7) as u8 + 1
    }

    fn wait(&mut self) -> Wait {
        match self.below(8) {
            0..4 => Some(0),
            4 => None,
            n => Some(n),
        }
    }
    /// Of a call for which nobody may come.
    fn bounded(&mut self) -> Wait {
        self.wait().or(Some(3))
    }

    fn semaphore(&mut self, n: Number) -> Op {
        match self.below(5) {
            0 => Op::Give(n),
            1 | 2 => Op::TryGive(n),
            _ => Op::Take(n, self.wait()),
        }
    }

    fn queue(&mut self, n: Number) -> Op {
        match self.below(2) {
            // Nobody may make room.
            0 => Op::Send(n, self.bounded()),
            _ => Op::Receive(n, self.wait()),
        }
    }

    fn timer(&mut self, n: Number) -> Op {
        match self.below(7) {
            0 | 1 => Op::Start(n),
            2 => Op::Stop(n),
            3 => Op::IsActive(n),
            _ => Op::Expired,
        }
    }

    /// The handle of an object that may be there, or may have been.
    fn handle(&mut self, kind: Kind) -> Number {
        let place = match kind {
            Kind::Semaphore => self.below(PERMITS as u64) as u8,
            _ => 0,
        };
        let count = self.one(&[1, 1, 1, 3, 3, 5]);
        16 * (1 + place) + count
    }

    fn made(&mut self) -> Op {
        let kind = if self.below(5) == 0 {
            Kind::Semaphore
        } else {
            self.kind
        };
        let n = self.handle(kind);
        let wait = self.bounded();
        match (self.below(6), kind) {
            (0 | 1, _) => Op::Make(kind),
            (2, _) => Op::Delete(kind, n),
            (3, Kind::Semaphore) => Op::TryGive(n),
            (_, Kind::Semaphore) => Op::Take(n, wait),
            (3, Kind::Queue) => Op::Send(n, wait),
            (_, Kind::Queue) => Op::Receive(n, wait),
            (3, Kind::Group) => Op::Set(n, self.flags()),
            (_, Kind::Group) => Op::Flags(n, self.flags(), false, wait),
            (_, Kind::Timer) => self.timer(n),
            (_, Kind::Mutex) => Op::Make(kind),
        }
    }

    fn op(&mut self) -> Op {
        let what = self.what.clone();
        match self.one(&what) {
            What::Small => self.semaphore(0),
            What::Large => self.semaphore(1),
            What::Slot => self.queue(0),
            What::Queue => self.queue(1),
            What::Flags => match self.below(5) {
                0 | 1 => Op::Set(0, self.flags()),
                _ => Op::Flags(0, self.flags(), self.below(2) == 0, self.wait()),
            },
            What::Timers => {
                let n = self.below(2) as u8;
                self.timer(n)
            }
            What::Time => Op::Take(NEVER, Some(self.below(12))),
            What::Priority => {
                let t = self.one(&[0, 1, 2, 3, WORKER as u8]);
                Op::Priority(t, self.below(4) as u8 + 1)
            }
            What::Spawn if self.kills && self.below(4) == 0 => Op::Abort(WORKER as u8),
            What::Spawn if self.below(8) == 0 => Op::Priority(WORKER as u8, 3),
            What::Spawn => Op::Spawn(!self.kills && self.me != WORKER && self.below(2) == 0),
            What::Abort => Op::Abort(((self.me as u64 + 1 + self.below(3)) % 6) as u8),
            What::Notify => match self.below(2) {
                0 => Op::Set(self.below(THREADS as u64) as u8 + 1, self.flags()),
                _ => Op::Flags(1, self.flags(), self.below(2) == 0, self.wait()),
            },
            What::Made => self.made(),
            What::Events if self.me == WORKER => Op::Take(NEVER, Some(1)),
            What::Events => Op::Until(self.below(4) as u32, self.wait().filter(|w| *w > 0)),
        }
    }

    /// An act that is no step.
    fn between(&mut self) -> Act {
        let timer = self.below(2) as u8;
        let interrupts = [
            Op::Give(0),
            Op::Set(0, self.flags()),
            Op::Start(timer),
            Op::Start(timer),
            Op::Stop(timer),
            Op::Send(0, None),
            Op::Send(1, None),
        ];
        match self.below(6) {
            0 | 1 => Act::Energy,
            _ => Act::Interrupt(self.one(&interrupts)),
        }
    }

    fn ops(&mut self, most: u64) -> Vec<Op> {
        let mut ops: Vec<Op> = (0..=self.below(most)).map(|_| self.op()).collect();
        // A step that waits for ever claims nothing for which others wait.
        for op in ops.iter_mut().skip(1) {
            match op {
                Op::Spawn(waits) => *waits = false,
                Op::Take(_, w) | Op::Receive(_, w) => *w = w.or(Some(3)),
                Op::Flags(_, _, _, w) | Op::Until(_, w) => *w = w.or(Some(3)),
                _ => {}
            }
        }
        ops
    }

    /// Calls that do not fail: a turn of a loop must not.
    fn turn(&mut self) -> Vec<Op> {
        let mut ops = self.ops(3);
        ops.retain(|o| {
            let made = match o {
                Op::Give(_) | Op::Abort(_) | Op::Make(_) | Op::Delete(..) => true,
                Op::Take(n, _) | Op::TryGive(n) | Op::Send(n, _) | Op::Receive(n, _) => *n >= 16,
                Op::Set(n, _) | Op::Flags(n, ..) | Op::Start(n) | Op::Stop(n) => *n >= 16,
                _ => false,
            };
            !made
        });
        ops
    }

    /// A mutex that may be locked after those that are held: in their order, or one of them again.
    fn lock(&mut self, held: &[Number]) -> Option<Number> {
        let next = held.iter().max().map_or(0, |l| l + 1);
        let latch = 0x10 + self.one(&[1, 1, 3]);
        match held.first() {
            Some(l) if self.below(4) == 0 => Some(*l),
            _ if self.what.contains(&What::Made) && next <= latch && self.below(2) == 0 => {
                Some(latch)
            }
            _ if next < LOCKS as u8 => Some(next + self.below((LOCKS as u8 - next).into()) as u8),
            _ => None,
        }
    }

    fn acts(&mut self, most: u64, locks: bool) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut held = Vec::new();
        let most = if locks { 2 * most } else { most };
        for _ in 0..1 + self.below(most) {
            match self.below(if locks { 20 } else { 16 }) {
                0 | 16 => acts.push(Act::Delay(1 + self.below(9))),
                12 => acts.push(self.between()),
                1 => acts.push(Act::Loop(1 + self.below(9) as u32, self.turn())),
                11 => {
                    let end = self.one(&[End::Commits, End::Fails, End::IsRefused]);
                    acts.push(Act::Beside(self.ops(3), end));
                }
                10 => {
                    let lock = self.lock(&held).filter(|l| locks && *l < 16);
                    let steps = (0..1 + self.below(2)).map(|_| self.turn()).collect();
                    acts.push(Act::Each(1 + self.below(4) as u32, lock, steps));
                }
                2..6 if locks && held.len() < 3 => {
                    if let Some(lock) = self.lock(&held) {
                        held.push(lock);
                        acts.push(Act::Lock(lock));
                    }
                }
                6..=8 if !held.is_empty() => {
                    let at = self.below(held.len() as u64) as usize;
                    held.remove(at);
                    acts.push(Act::Unlock(at as u8));
                }
                17.. if !held.is_empty() => {
                    let at = self.below(held.len() as u64) as u8;
                    acts.push(Act::Add(at));
                }
                n => acts.push(Act::Step(self.ops(4), n == 15 || n >= 13 && !locks)),
            }
        }
        acts
    }
}

/// A program of any kinds of calls.
pub fn any(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let what = (0..1 + rng.below(3)).map(|_| ALL[rng.below(ALL.len() as u64) as usize]);
    of(seed, 5, what.collect(), false)
}

/// A short one, to be preempted anywhere.
pub fn preempted(seed: u64) -> Program {
    let mut program = any(seed);
    let mut few = 0;
    for acts in &mut program.threads[..AUDITOR] {
        acts.truncate(if few < 2 { 2 } else { 0 });
        few += usize::from(!acts.is_empty());
    }
    program.threads[AUDITOR] = joins();
    program.preempted = true;
    program
}

/// A program of these kinds of calls, with at most so many acts in a thread.
pub fn of(seed: u64, most: u64, mut what: Vec<What>, locks: bool) -> Program {
    let mut m = Maker {
        rng: Rng::new(seed),
        what: Vec::new(),
        kind: KINDS[(seed / 3 % 5) as usize],
        me: 0,
        kills: seed.is_multiple_of(2),
    };
    if what.contains(&What::Abort) {
        what.extend([What::Priority, What::Time]);
    }
    if m.below(3) == 0 {
        what.push(What::Time);
    }
    m.what = what;
    let locks = locks || m.below(3) == 0;
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let n = m.one(&[2, 2, 3, 3, 4, 6]);
    // Any of the threads, which have different priorities.
    let first = m.below(AUDITOR as u64) as usize;
    for i in 0..n {
        m.me = (first + i) % AUDITOR;
        threads[m.me] = m.acts(if n > 3 { most.min(3) } else { most }, locks);
    }
    if m.what.contains(&What::Spawn) {
        m.me = WORKER;
        // Who waits for its end may have a lock.
        threads[WORKER] = m.acts(most.min(3), locks && m.kills);
        if m.below(3) == 0 {
            threads[WORKER].push(Act::Fail);
        }
    }
    threads[AUDITOR] = audit();
    Program::new(threads)
}

/// Threads that lock, wait and unlock, and whose steps do little else.
pub fn locks(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    // Of its own: with or without these locks the other choices are the same.
    let mut tries = Rng::new(seed ^ 0x7e1);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let first = rng.below(AUDITOR as u64) as usize;
    // The mutexes with data, or the others.
    let from = if rng.below(2) == 0 { WITH_DATA } else { 0 };
    for i in 0..2 + rng.below(2) as usize {
        let acts = &mut threads[(first + i) % AUDITOR];
        for _ in 0..1 + rng.below(3) {
            // One or more locks, one of them twice maybe, and what is done under them.
            let mut held = 0;
            let mut next = from + u8::from(rng.below(4) == 0);
            for _ in 0..2 + rng.below(4) {
                match rng.below(7) {
                    0 | 1 if held < 4 && next < LOCKS as u8 => {
                        acts.push(match tries.below(4) {
                            0 => Act::Try(next, tries.below(4)),
                            _ => Act::Lock(next),
                        });
                        held += 1;
                        next += rng.below(3) as u8;
                    }
                    2 => acts.push(Act::Delay(1 + rng.below(3))),
                    3 => {
                        let n = rng.below(3);
                        let ops = vec![Op::Take(NEVER, Some(n)), Op::TryGive(1)];
                        acts.push(Act::Step(ops, false));
                    }
                    4 if held > 0 => acts.push(Act::Add(rng.below(held) as u8)),
                    _ => acts.push(Act::Step(vec![Op::TryGive(1)], rng.below(9) == 0)),
                }
            }
            while held > 0 {
                acts.push(Act::Unlock(rng.below(held) as u8));
                held -= 1;
            }
        }
    }
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// Threads that start timers, and several daemons, whose steps take long and fail often.
pub fn timers(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    // With the one-shot timer, or both.
    let timers = 1 + rng.below(2);
    for acts in threads.iter_mut().take(2 + rng.below(3) as usize) {
        for _ in 0..1 + rng.below(4) {
            let timer = 1 - rng.below(timers) as u8;
            match rng.below(8) {
                0 | 1 => acts.push(Act::Interrupt(Op::Start(timer))),
                2 => acts.push(Act::Interrupt(Op::Stop(timer))),
                3 => acts.push(Act::Delay(1 + rng.below(9))),
                _ => {}
            }
            let ops = (0..1 + rng.below(3)).map(|_| {
                let timer = 1 - rng.below(timers) as u8;
                match rng.below(8) {
                    0 | 1 => Op::Start(timer),
                    2 => Op::Stop(timer),
                    3 => Op::IsActive(timer),
                    4 | 5 => Op::Take(NEVER, Some(1 + rng.below(30))),
                    _ => Op::Expired,
                }
            });
            let ops = ops.collect();
            acts.push(Act::Step(ops, rng.below(4) == 0));
        }
    }
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// Threads between whose steps handlers come.
pub fn handlers(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0xa11);
    let what = vec![
        What::Queue,
        What::Queue,
        What::Slot,
        What::Flags,
        What::Small,
    ];
    let mut program = of(seed, 3, what, false);
    for acts in &mut program.threads[..AUDITOR] {
        let before = std::mem::take(acts);
        for act in before {
            acts.push(act);
            for _ in 0..rng.below(3) {
                acts.push(Act::Interrupt(match rng.below(5) {
                    0 => Op::Give(0),
                    1 => Op::Set(0, rng.below(7) as u8 + 1),
                    2 => Op::Send(0, None),
                    _ => Op::Send(1, None),
                }));
            }
        }
    }
    program
}

/// Threads that spawn others and abort them.
pub fn spawns(seed: u64) -> Program {
    let more = [
        What::Small,
        What::Flags,
        What::Timers,
        What::Abort,
        What::Made,
    ];
    let more = more[(seed % more.len() as u64) as usize];
    of(
        seed,
        3,
        vec![What::Spawn, What::Spawn, What::Time, What::Priority, more],
        seed.is_multiple_of(4),
    )
}

/// Threads that claim things and wait, and are aborted meanwhile.
pub fn aborts(seed: u64) -> Program {
    let more = ALL[(seed % 6) as usize];
    of(
        seed,
        3,
        vec![What::Abort, What::Time, more, more],
        seed.is_multiple_of(2),
    )
}

/// Threads that make objects, use them and delete them.
pub fn makes(seed: u64) -> Program {
    let more = if seed.is_multiple_of(3) {
        What::Abort
    } else {
        What::Time
    };
    of(
        seed,
        5,
        vec![What::Made, What::Made, What::Made, more],
        seed.is_multiple_of(4),
    )
}

/// Threads that lock a mutex which others make and delete.
pub fn latches(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let make = || Act::Step(vec![Op::Make(Kind::Mutex)], false);
    let handle = |rng: &mut Rng| if rng.below(3) == 0 { 0x13 } else { 0x11 };
    let mut tries = Rng::new(seed ^ 0x7e1);
    let first = rng.below(AUDITOR as u64) as usize;
    threads[first].push(make());
    for t in [first, (first + 1) % AUDITOR] {
        for _ in 0..1 + rng.below(2) {
            threads[t].push(Act::Delay(1 + rng.below(3)));
            let latch = handle(&mut rng);
            threads[t].push(match tries.below(4) {
                0 => Act::Try(latch, tries.below(4)),
                _ => Act::Lock(latch),
            });
            for _ in 0..1 + rng.below(2) {
                let ops = vec![Op::Take(NEVER, Some(rng.below(3))), Op::TryGive(1)];
                threads[t].push(Act::Step(ops, false));
            }
            threads[t].push(Act::Unlock(0));
        }
    }
    for i in 2..3 + rng.below(2) as usize {
        let deletes = &mut threads[(first + i) % AUDITOR];
        for _ in 0..1 + rng.below(3) {
            if rng.below(2) == 0 {
                deletes.push(Act::Delay(1 + rng.below(6)));
            }
            let n = handle(&mut rng);
            let ops = vec![
                Op::Delete(Kind::Mutex, n),
                Op::Take(NEVER, Some(rng.below(4))),
            ];
            deletes.push(Act::Step(ops, rng.below(3) == 0));
            deletes.push(make());
        }
    }
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// Threads that run for long without progress, in a system that parks them.
pub fn works(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    for t in [0, 1 + rng.below(4) as usize, WORKER] {
        for _ in 0..1 + rng.below(4) {
            threads[t].push(match rng.below(6) {
                0 => Act::Delay(1 + rng.below(9)),
                1 if t != WORKER => Act::Step(vec![Op::Spawn(false)], false),
                1 | 2 => Act::Step(vec![Op::TryGive(1)], rng.below(4) == 0),
                // About as many numbers as there are.
                3 if t != WORKER => Act::Loop(13 + rng.below(4) as u32, vec![Op::TryGive(1)]),
                _ => Act::Work([3, 12, 25, 50][rng.below(4) as usize]),
            });
        }
    }
    threads[AUDITOR] = audit();
    Program::new(threads)
}

/// One thread has the oldest message and fails at last, while many others are sent after it.
pub fn laps(turns: u32) -> Program {
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let oldest = vec![Op::Receive(1, None), Op::Take(NEVER, Some(200))];
    threads[0] = vec![Act::Step(oldest, true)];
    threads[1] = vec![
        Act::Step(vec![Op::Send(1, None); 8], false),
        Act::Loop(turns, vec![Op::Send(1, Some(300))]),
    ];
    threads[2] = vec![
        Act::Delay(1),
        Act::Loop(turns, vec![Op::Receive(1, Some(1))]),
    ];
    threads[AUDITOR] = audit();
    Program::new(threads)
}
