//! Short programs about one thing each, whose details come from a seed. They are cut everywhere:
//! programs of any calls come to these moments seldom.

use super::program::*;
use powerfail::Rng;

/// Threads by priority: the lowest, one between, and the highest of those that a program has.
const LOW: usize = 5;
const MIDDLE: usize = 2;
const HIGH: usize = 4;

fn step(ops: &[Op]) -> Act {
    Act::Step(ops.to_vec(), false)
}

/// Its body fails after the calls.
fn failing(ops: &[Op]) -> Act {
    Act::Step(ops.to_vec(), true)
}

/// The step stays open for so many ticks.
fn hold(ticks: u64) -> Op {
    Op::Take(NEVER, Some(ticks))
}

/// A thread works under a lock, once or twice locked. Another one wants the lock then, and may wait
/// under it for the end of the first; or aborts the first meanwhile.
pub fn contended(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x10c);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let lock = rng.below(LOCKS as u64) as u8;
    let (aborts, more) = (rng.below(2) == 0, rng.below(2) == 0);
    // Locks it twice, with a commit after that or without.
    let (twice, late) = (rng.below(2) == 0, rng.below(2) == 0);
    let inside = |rng: &mut Rng| match lock >= WITH_DATA || rng.below(2) == 0 {
        true => Act::Add(0),
        false => step(&[Op::TryGive(1), hold(rng.below(3))]),
    };
    let low = &mut threads[LOW];
    low.push(Act::Lock(lock));
    if twice && !late {
        low.push(Act::Lock(lock));
    }
    low.push(step(&[Op::TryGive(0), hold(rng.below(3))]));
    if twice && !late {
        low.push(Act::Unlock(1));
    }
    low.push(inside(&mut rng));
    match rng.below(3) {
        0 => low.push(step(&[Op::TryGive(1), hold(1 + rng.below(3))])),
        1 => low.push(Act::Work(1 + rng.below(4))),
        _ => {}
    }
    if twice && late {
        low.extend([Act::Lock(lock), Act::Unlock(1)]);
    }
    low.push(Act::Unlock(0));
    if more {
        low.push(step(&[Op::TryGive(1)]));
    }
    if aborts {
        let aborts = step(&[Op::Abort(LOW as u8), hold(rng.below(2))]);
        threads[MIDDLE] = vec![Act::Delay(1 + rng.below(3)), aborts];
    } else {
        let waits = match rng.below(2) {
            0 => Act::Delay(1 + rng.below(2)),
            _ => Act::Join(LOW as u8),
        };
        threads[HIGH] = vec![
            // The first one has committed under the lock.
            step(&[Op::Take(0, None)]),
            Act::Lock(lock),
            inside(&mut rng),
            waits,
            inside(&mut rng),
            Act::Unlock(0),
        ];
    }
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// A thread works under a lock. Another one wants the lock meanwhile, a few times, and gives up
/// soon: at once, or after some ticks. What it does next is the same in all boots.
pub fn tries(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x7e1e);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let lock = rng.below(LOCKS as u64) as u8;
    let (holder, other) = match rng.below(2) {
        0 => (LOW, HIGH),
        _ => (HIGH, LOW),
    };
    threads[holder] = vec![
        Act::Lock(lock),
        step(&[Op::TryGive(0), hold(1 + rng.below(3))]),
    ];
    if rng.below(2) == 0 {
        threads[holder].extend([Act::Try(lock, rng.below(2)), Act::Unlock(1)]);
    }
    threads[holder].extend([
        step(&[Op::TryGive(1), hold(rng.below(3))]),
        Act::Unlock(0),
        step(&[Op::TryGive(1), hold(rng.below(2))]),
        Act::Lock(lock),
        step(&[Op::TryGive(1)]),
        Act::Unlock(0),
    ]);
    for _ in 0..2 + rng.below(2) {
        threads[other].extend([
            Act::Delay(1 + rng.below(3)),
            Act::Try(lock, rng.below(3)),
            step(&[Op::TryGive(1), hold(rng.below(2))]),
            Act::Unlock(0),
        ]);
    }
    threads[other].push(Act::Join(holder as u8));
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// A mutex is made, locked and deleted, each by another thread.
pub fn latches(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x1a7);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let first = 0x11;
    let make = step(&[Op::Make(Kind::Mutex)]);
    // The holder first, or those that delete.
    let (holder, deletes) = match seed % 2 {
        0 => (LOW, HIGH),
        _ => (HIGH, LOW),
    };
    threads[holder] = vec![
        make.clone(),
        Act::Lock(first),
        step(&[Op::TryGive(1), hold(1 + rng.below(3))]),
        step(&[Op::TryGive(1), hold(rng.below(4))]),
        Act::Unlock(0),
    ];
    if rng.below(2) == 0 {
        threads[holder].push(step(&[Op::TryGive(1)]));
    }
    let delete = [Op::Delete(Kind::Mutex, first), hold(1 + rng.below(4))];
    threads[deletes] = vec![Act::Delay(1 + rng.below(9)), step(&delete)];
    if rng.below(2) == 0 {
        threads[deletes].push(make);
    }
    threads[MIDDLE] = vec![
        Act::Delay(2 + rng.below(9)),
        Act::Lock(first),
        step(&[Op::TryGive(1)]),
        Act::Unlock(0),
    ];
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// Two threads delete one object, and one makes another in its place.
pub fn deletes(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0xde1);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let kind = [Kind::Semaphore, Kind::Queue, Kind::Group, Kind::Timer][(seed % 4) as usize];
    let use_it = |n: Number| match kind {
        Kind::Semaphore => Op::TryGive(n),
        Kind::Queue => Op::Send(n, Some(1)),
        Kind::Group => Op::Set(n, 3),
        Kind::Timer | Kind::Mutex => Op::Start(n),
    };
    let delete = Op::Delete(kind, 0x11);
    threads[HIGH] = vec![
        step(&[Op::Make(kind)]),
        step(&[use_it(0x11)]),
        step(&[delete, hold(2 + rng.below(4))]),
        step(&[use_it(0x11)]),
    ];
    let again = match rng.below(2) {
        0 => step(&[delete, hold(rng.below(2))]),
        _ => failing(&[delete]),
    };
    threads[MIDDLE] = vec![
        Act::Delay(1 + rng.below(2)),
        again,
        step(&[Op::Make(kind)]),
        step(&[use_it(0x13), hold(1 + rng.below(9))]),
        step(&[use_it(0x13)]),
    ];
    if kind == Kind::Timer {
        // Nobody starts another one, or somebody does.
        let left = if rng.below(2) == 0 { 0 } else { 5 };
        threads[MIDDLE].truncate(left);
        threads[LOW] = vec![step(&[Op::Expired]); 2];
    }
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// Daemons take long for an expiry, or fail, while the timer is started again.
pub fn daemons(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0xdae);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let [slow, starts, next] = match rng.below(3) {
        0 => [HIGH, MIDDLE, LOW],
        1 => [LOW, MIDDLE, HIGH],
        _ => [MIDDLE, LOW, HIGH],
    };
    let takes = [Op::Expired, hold(2 + rng.below(5))];
    let ends = match rng.below(3) {
        0 => failing(&takes),
        _ => step(&takes),
    };
    let asks = step(&[Op::IsActive(1)]);
    if rng.below(2) == 0 {
        threads[slow].push(Act::Interrupt(Op::Start(1)));
    }
    threads[slow].extend([ends, asks.clone()]);
    let again = match rng.below(4) {
        0 => step(&[Op::Start(1)]),
        1 => Act::Interrupt(Op::Stop(1)),
        _ => Act::Interrupt(Op::Start(1)),
    };
    threads[starts] = vec![
        Act::Delay(7 + rng.below(4)),
        again,
        asks.clone(),
        Act::Delay(1 + rng.below(9)),
        asks,
    ];
    threads[next] = vec![step(&[Op::Expired])];
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// Threads of the reserved place one after the other, which lock and may fail.
pub fn workers(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x303);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let lock = rng.below(3) as u8;
    let claims = [Op::Spawn(false), hold(1 + rng.below(3))];
    threads[MIDDLE] = vec![
        match rng.below(2) {
            0 => failing(&claims),
            _ => step(&claims),
        },
        Act::Join(WORKER as u8),
        Act::Lock(lock),
        step(&[Op::TryGive(1)]),
        Act::Unlock(0),
    ];
    threads[HIGH] = vec![
        Act::Delay(1),
        step(&[Op::Spawn(true)]),
        Act::Join(WORKER as u8),
        step(&[Op::TryGive(1)]),
    ];
    threads[WORKER] = vec![
        Act::Lock(lock),
        step(&[Op::TryGive(1), hold(1)]),
        match rng.below(2) {
            0 => Act::Fail,
            _ => Act::Delay(1),
        },
    ];
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// A few messages of threads and of handlers, received later.
pub fn messages(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x3e5);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let mut send = || match rng.below(2) {
        0 => step(&[Op::Send(1, Some(0))]),
        _ => Act::Interrupt(Op::Send(1, None)),
    };
    threads[HIGH] = vec![send(), send(), send(), Act::Delay(2), send(), send()];
    let receive = step(&[Op::Receive(1, Some(0))]);
    threads[LOW] = vec![receive.clone(), receive.clone(), Act::Delay(2)];
    threads[LOW].extend(vec![receive; 4]);
    threads[AUDITOR] = joins();
    Program::new(threads)
}

/// A step, and about as many records after it as there are numbers.
pub fn records(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x4ec);
    let mut threads: [Vec<Act>; THREADS] = Default::default();
    let n = 5 + rng.below(4) as usize;
    threads[LOW].push(step(&[Op::TryGive(0)]));
    threads[LOW].extend(vec![Act::Energy; n]);
    threads[LOW].push(step(&[Op::Take(0, Some(0))]));
    threads[LOW].extend(vec![Act::Energy; 2]);
    threads[AUDITOR] = joins();
    Program::new(threads)
}
