// A system at the limits, and threads that do what a program says. Included for each medium, with
// `SEQ` and `PRIORITY`.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 192, outbox_bytes: 0, seq_bits: SEQ }
    pool { journal_entries: 8, journal_bytes: 64, seq_bits: SEQ }
    objects {
        SEM0: Semaphore = (FIRST[0], MAX[0]);
        SEM1: Semaphore = (FIRST[1], MAX[1]);
        SEM2: Semaphore = (FIRST[2], MAX[2]);
        QUEUE0: Queue<Message, 1>;
        QUEUE1: Queue<Message, 32>;
        FLAGS: Events;
        TIMER0: Timer = periodic(PERIOD[0] as u32);
        TIMER1: Timer = one_shot(PERIOD[1] as u32);
        LOCK0: Mutex;
        LOCK1: Mutex;
        LOCK2: Mutex;
        MADE_SEMAPHORES: [Semaphore = PERMITS_MAX; 2] => Permit;
        MADE_QUEUES: [Queue<Message, 2>; 1] => Letters;
        MADE_FLAGS: [Events; 1] => Phases;
        MADE_TIMERS: [Timer = one_shot(ALARM); 1] => Alarm;
        MADE_MUTEXES: [Mutex; 1] => Latch;
    }
    shared {
        BOARD0: u32 = 0;
        BOARD1: u32 = 0;
    }
    threads {
        t0(u32 = 0): PRIORITY[0];
        t1(u32 = 0): PRIORITY[1];
        t2(u32 = 0): PRIORITY[2];
        t3(u32 = 0): PRIORITY[3];
        t4(u32 = 0): PRIORITY[4];
        t5(u32 = 0): PRIORITY[5];
        auditor(u32 = 0): PRIORITY[6];
    }
    reserve {
        worker(u32 = 0, u32): PRIORITY[7];
    }
    control { change: true, notify: true, lives: LIVES, ticks: TICKS }
}

const SEMAPHORES: [nv_rtos::Semaphore<Plan>; 3] = [SEM0, SEM1, SEM2];
const TIMERS: [nv_rtos::Timer<Plan>; 2] = [TIMER0, TIMER1];
const MUTEXES: [nv_rtos::Mutex<Plan>; 3] = [LOCK0, LOCK1, LOCK2];
const IDS: [ThreadId<Plan>; WORKER] = [
    Plan::t0(),
    Plan::t1(),
    Plan::t2(),
    Plan::t3(),
    Plan::t4(),
    Plan::t5(),
    Plan::auditor(),
];

type Called<T> = Result<T, pmem_tx::Error>;

/// A message of the largest size.
type Message = [u32; 16];

fn message(id: u32) -> Message {
    std::array::from_fn(|i| id.rotate_left(i as u32))
}

fn id_of(m: Message) -> u32 {
    let whole = m[0] != 0 && m == message(m[0]);
    assert!(whole, "a message whose content was not there: {m:x?}");
    m[0]
}

/// The handle of an object's number.
fn handle<H: Made>(n: Number) -> H {
    let (place, count) = made(n).expect("a handle");
    H::new(place, count)
}

/// Calls an object of the system, or one that was made.
macro_rules! on {
    ($n:expr, $fixed:expr, $places:ident, |$o:ident| $e:expr) => {
        if made($n).is_none() {
            let $o = &$fixed;
            $e
        } else {
            let $o = &$places.at(handle($n));
            $e
        }
    };
}
macro_rules! on_semaphore {
    ($n:expr, |$o:ident| $e:expr) => {
        on!($n, SEMAPHORES[usize::from($n)], MADE_SEMAPHORES, |$o| $e)
    };
}
macro_rules! on_timer {
    ($n:expr, |$o:ident| $e:expr) => {
        on!($n, TIMERS[usize::from($n)], MADE_TIMERS, |$o| $e)
    };
}
macro_rules! on_queue {
    ($n:expr, |$o:ident| $e:expr) => {
        match $n {
            0 => {
                let $o = &QUEUE0;
                $e
            }
            n => on!(n, QUEUE1, MADE_QUEUES, |$o| $e),
        }
    };
}

fn until(all: bool) -> Until {
    if all { Until::All } else { Until::Any }
}

fn set(sys: &Step<'_, '_, '_, '_, Plan>, n: Number, flags: u8) -> Called<()> {
    match n {
        1..16 if usize::from(n) > WORKER => Plan::worker().notify(sys, flags),
        1..16 => IDS[usize::from(n) - 1].notify(sys, flags),
        n => on!(n, FLAGS, MADE_FLAGS, |o| o.set(sys, flags)),
    }
}

fn wait_flags(
    sys: &Step<'_, '_, '_, '_, Plan>,
    n: Number,
    flags: u8,
    all: bool,
    wait: Wait,
) -> Called<Option<u8>> {
    let until = until(all);
    match (n, wait) {
        (1..16, None) => wait_notification(sys, flags, until).map(Some),
        (1..16, Some(ticks)) => wait_notification_timeout(sys, flags, until, ticks),
        (n, None) => on!(n, FLAGS, MADE_FLAGS, |o| o.wait(sys, flags, until).map(Some)),
        (n, Some(ticks)) => {
            on!(n, FLAGS, MADE_FLAGS, |o| o.wait_timeout(sys, flags, until, ticks))
        }
    }
}

fn make(sys: &Step<'_, '_, '_, '_, Plan>, kind: Kind) -> Called<u32> {
    let (place, count) = match kind {
        Kind::Semaphore => MADE_SEMAPHORES.make(sys, 1)?.parts(),
        Kind::Queue => MADE_QUEUES.make(sys)?.parts(),
        Kind::Group => MADE_FLAGS.make(sys)?.parts(),
        Kind::Timer => MADE_TIMERS.make(sys)?.parts(),
        Kind::Mutex => MADE_MUTEXES.make(sys)?.parts(),
    };
    Ok(16 * (1 + u32::from(place)) + u32::from(count))
}

fn delete(sys: &Step<'_, '_, '_, '_, Plan>, kind: Kind, n: Number) -> Called<()> {
    match kind {
        Kind::Semaphore => MADE_SEMAPHORES.delete(sys, handle(n)),
        Kind::Queue => MADE_QUEUES.delete(sys, handle(n)),
        Kind::Group => MADE_FLAGS.delete(sys, handle(n)),
        Kind::Timer => MADE_TIMERS.delete(sys, handle(n)),
        Kind::Mutex => MADE_MUTEXES.delete(sys, handle(n)),
    }
}

/// A call, and its result as a number: 0 if it has not found what it wants.
fn call(sys: &Step<'_, '_, '_, '_, Plan>, op: Op, id: u32) -> Called<u32> {
    let one = |()| 1;
    let event = |n| move || Ok((judge().events() >= n).then_some(1));
    Ok(match op {
        Op::Give(n) => on_semaphore!(n, |o| o.give(sys)).map(one)?,
        Op::TryGive(n) => on_semaphore!(n, |o| o.try_give(sys))?.into(),
        Op::Take(n, None) => on_semaphore!(n, |o| o.take(sys)).map(one)?,
        Op::Take(n, Some(0)) => on_semaphore!(n, |o| o.try_take(sys))?.into(),
        Op::Take(n, Some(ticks)) => on_semaphore!(n, |o| o.take_timeout(sys, ticks))?.into(),
        Op::Send(n, None) => on_queue!(n, |o| o.send(sys, message(id))).map(one)?,
        Op::Send(n, Some(0)) => on_queue!(n, |o| o.try_send(sys, message(id)))?.into(),
        Op::Send(n, Some(ticks)) => {
            on_queue!(n, |o| o.send_timeout(sys, message(id), ticks))?.into()
        }
        Op::Receive(n, None) => id_of(on_queue!(n, |o| o.receive(sys))?),
        Op::Receive(n, Some(0)) => on_queue!(n, |o| o.try_receive(sys))?.map_or(0, id_of),
        Op::Receive(n, Some(ticks)) => {
            on_queue!(n, |o| o.receive_timeout(sys, ticks))?.map_or(0, id_of)
        }
        Op::Set(n, flags) => set(sys, n, flags).map(one)?,
        Op::Flags(n, flags, all, wait) => {
            wait_flags(sys, n, flags, all, wait)?.map_or(0, |f| 0x100 | u32::from(f))
        }
        Op::Start(n) => on_timer!(n, |o| o.start(sys)).map(one)?,
        Op::Stop(n) => on_timer!(n, |o| o.stop(sys)).map(one)?,
        Op::IsActive(n) => on_timer!(n, |o| o.is_active(sys)).into(),
        Op::Expired => {
            let timer = nv_rtos::expired(sys)?;
            let alarm = u32::from(!TIMER0.is(timer) && !TIMER1.is(timer));
            1 + u32::from(TIMER1.is(timer)) + 2 * alarm
        }
        Op::Until(n, None) => wait_until(sys, event(n))?,
        Op::Until(n, Some(ticks)) => wait_until_timeout(sys, ticks, event(n))?.unwrap_or(0),
        Op::Make(kind) => make(sys, kind)?,
        Op::Delete(kind, n) => delete(sys, kind, n).map(one)?,
        Op::Priority(t, p) if usize::from(t) == WORKER => {
            Plan::worker().set_priority(sys, p).map(one)?
        }
        Op::Priority(t, p) => IDS[usize::from(t)].set_priority(sys, p).map(one)?,
        Op::Spawn(true) => Plan::worker().spawn(sys, id).map(one)?,
        Op::Spawn(false) => Plan::worker().try_spawn(sys, id)?.into(),
        Op::Abort(t) if usize::from(t) == WORKER => Plan::worker().abort(sys).map(one)?,
        Op::Abort(t) => IDS[usize::from(t)].abort(sys).map(one)?,
    })
}

/// The code of an error as a result.
fn code_of(e: Error) -> u32 {
    match e {
        Error::Aborted(code) => ERR | u32::from(code),
        e => panic!("a step ends with {e:?}"),
    }
}

/// A step of a program: the thread, the act, the number of the step, and its place in the act.
type Key = [u32; 4];

/// The body of a step, or of a turn of a loop.
fn body(sys: &Step<'_, '_, '_, '_, Plan>, key: Key, root: u32) -> Called<u32> {
    let [t, a, n, part] = key;
    let (me, step) = (t as usize, n as usize);
    judge().begins(me, step, root);
    let program = judge().program;
    let (ops, fails) = match &program.threads[me][a as usize] {
        Act::Step(ops, fails) => (ops, *fails),
        Act::Beside(ops, end) => (ops, *end == End::Fails),
        Act::Loop(_, ops) => (ops, false),
        Act::Each(_, _, steps) => (&steps[part as usize], false),
        other => unreachable!("{other:?}"),
    };
    let mut all = 0u32;
    for (i, op) in ops.iter().enumerate() {
        // No other step that commits has it.
        let id = (t + 1) << 24 | root << 8 | i as u32;
        let mut error = None;
        let r = judge().call(me, *op, id, || {
            let r = call(sys, *op, id).unwrap_or_else(|e| {
                error = Some(e);
                code_of(e.into())
            });
            judge(); // the clock may have moved
            r
        });
        if let Some(e) = error {
            judge().fails(me, step, r);
            return Err(e);
        }
        all = (all.wrapping_mul(31) ^ r) & !ERR;
    }
    if fails {
        judge().fails(me, step, ERR | 7);
        return Err(sys.abort(7));
    }
    judge().returns(me, all);
    Ok(all)
}

/// A step, whose number is in its key.
fn step(th: &mut Thread<'_, '_, '_, Plan, u32>, key: Key) {
    let r = th.step(key, |sys, root, key| {
        let all = body(sys, key, *root.get(sys))?;
        *root.get_mut(sys)? += 1;
        Ok(all)
    });
    let r = r.map_err(Error::from).unwrap_or_else(code_of);
    judge().passed(key[0] as usize, key[2] as usize, r);
}

/// Something beside the kernel that takes part in the steps of a thread.
struct Beside {
    of: usize,
    owner: nv_rtos::nvmem::NumberOwner,
    /// The number of the step that runs with it, and whether it refuses that one.
    step: Cell<Option<(usize, bool)>>,
}

impl<M: Model> Joiner<M> for Beside {
    fn join_by<'c>(
        &self,
        commit: Commit<'c, M>,
        store: impl FnOnce(Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<Committed<'c>, Error> {
        let (step, refuses) = self.step.take().expect("a step");
        if refuses {
            judge().fails(self.of, step, ERR | 9);
            return Err(Error::Aborted(9));
        }
        store(commit)
    }
    fn undone(&self) {
        self.step.set(None);
    }
    fn owner(&self) -> Option<nv_rtos::nvmem::NumberOwner> {
        Some(self.owner)
    }
}

/// A step with something beside the kernel. Whether the thread may have such steps.
fn step_beside(th: &mut Thread<'_, '_, '_, Plan, u32>, key: Key, refuses: bool) -> bool {
    let (me, n) = (key[0] as usize, key[2] as usize);
    let beside = |th: &mut Thread<'_, '_, '_, Plan, u32>, owner| {
        let step = Cell::new(Some((n, refuses)));
        let mut beside = Beside {
            of: me,
            owner,
            step,
        };
        let r = th.step_with(&mut beside, key, |step, root, key| {
            let all = body(&step.inner(), key, *root.get(step))?;
            *root.get_mut(step)? += 1;
            Ok(all)
        });
        let kept = beside.step.get().is_some();
        (kept, r.map_err(|e| e.error))
    };
    let owner = th.owner();
    let live = judge().is_live(me);
    if me == WORKER {
        let refused = Err(Error::Aborted(code::NOT_OF_THREAD));
        assert_eq!(beside(th, owner).1, refused, "the thread of a reserved place");
        return false;
    }
    let of_another = beside(th, owner.thread(1)).1;
    assert_eq!(of_another, Err(Error::WrongOwner), "it belongs to another thread");
    let (kept, r) = beside(th, owner);
    // A replay passes the step, and does not call what is beside it.
    assert!(!kept || !live, "a step has ended, and what is beside the kernel does not know");
    judge().passed(me, n, r.unwrap_or_else(code_of));
    true
}

/// A lock that a thread has.
enum Held<'k, 'm, 'c> {
    #[expect(dead_code, reason = "it is dropped")]
    Plain(Guard<'k, 'm, 'c, Plan>),
    Data(Guard<'k, 'm, 'c, Plan, u32>),
    /// The thread has an outer one, which has the data.
    #[expect(dead_code, reason = "it is dropped")]
    Inner(Guard<'k, 'm, 'c, Plan, u32>),
}

/// Locks a mutex, at most for so many ticks if there are some; `None` if the time is over, or if it
/// was made and does not exist.
fn lock<'k, 'm, 'c>(
    th: &mut Thread<'k, 'm, 'c, Plan, u32>,
    me: usize,
    n: Number,
    act: usize,
    inner: bool,
    ticks: Option<u64>,
) -> Option<Held<'k, 'm, 'c>> {
    let held = match inner {
        true => Held::Inner,
        false => Held::Data,
    };
    let live = th.is_live();
    judge().locks_now(me, n);
    let since = judge().now();
    let locked = match n {
        0..3 => lock_within(th, &MUTEXES[usize::from(n)], ticks).map(|g| g.map(Held::Plain)),
        3 => lock_within(th, &BOARD0, ticks).map(|g| g.map(held)),
        4 => lock_within(th, &BOARD1, ticks).map(|g| g.map(held)),
        n => {
            let mutex = MADE_MUTEXES.at(handle(n));
            lock_within(th, &mutex, ticks).map(|g| g.map(Held::Plain))
        }
    };
    if made(n).is_some() || ticks.is_some() {
        let found = locked.as_ref().map_or(0, |held| 1 + u32::from(held.is_some()));
        judge().finds_again(me, act, found, live);
    }
    match locked {
        Ok(Some(held)) => {
            judge().locked(me, n, act as u8, live);
            Some(held)
        }
        Ok(None) => {
            let ticks = ticks.expect("a lock without end gives up");
            judge().gives_up(me, n, (since, ticks), live);
            None
        }
        Err(Error::Aborted(code::DELETED)) => {
            judge().found_none(me, n, live);
            None
        }
        Err(e) => panic!("a lock ends with {e:?}"),
    }
}

fn lock_within<'k, 'm, 'c, T, G: Locks>(
    th: &mut Thread<'k, 'm, 'c, Plan, u32>,
    mutex: &Mutex<Plan, T, G>,
    ticks: Option<u64>,
) -> Result<Option<Guard<'k, 'm, 'c, Plan, T>>, Error> {
    match ticks {
        None => th.lock(mutex).map(Some),
        Some(0) => th.try_lock(mutex),
        Some(n) => th.lock_timeout(mutex, n),
    }
}

/// A step that adds one to the data of a lock.
fn add(
    th: &mut Thread<'_, '_, '_, Plan, u32>,
    guard: &mut Guard<'_, '_, '_, Plan, u32>,
    key: Key,
) {
    let r = th.step((guard.data(), key), |sys, root, (mut data, key)| {
        let me = key[0] as usize;
        judge().begins(me, key[2] as usize, *root.get(sys));
        let data = data.get_mut(sys)?;
        judge().adds(me, key[3] as u8, *data);
        *data += 1;
        *root.get_mut(sys)? += 1;
        judge().returns(me, *data);
        Ok(*data)
    });
    let r = r.map_err(|e| e.error).unwrap_or_else(code_of);
    judge().passed(key[0] as usize, key[2] as usize, r);
}

fn thread(th: &mut Thread<'_, '_, '_, Plan, u32>, me: usize) -> Result<(), Error> {
    let (mut n, mut fails) = (0, false);
    let mut guards: Vec<(Number, Option<Held<'_, '_, '_>>)> = Vec::new();
    let program = judge().program;
    for (a, act) in program.threads[me].iter().enumerate() {
        let live = th.is_live();
        let key = [me as u32, a as u32, n as u32, 0];
        if live && matches!(act, Act::Delay(_) | Act::Join(_) | Act::Energy | Act::Try(..)) {
            judge().progresses(me);
        }
        match act {
            Act::Step(..) => {
                step(th, key);
                n += 1;
            }
            Act::Beside(_, end) => {
                n += usize::from(step_beside(th, key, *end == End::IsRefused));
            }
            Act::Loop(times, _) => {
                th.each_step(0..*times, key, |sys, root, i, [t, a, n, _]| {
                    let all = body(sys, [t, a, n + i, 0], *root.get(sys))?;
                    *root.get_mut(sys)? += 1;
                    judge().returns(t as usize, all);
                    Ok(())
                })?;
                n += *times as usize;
                judge().passed_all(me, n);
            }
            Act::Each(times, _, steps) => {
                th.each(0..*times, key, |th, i, key| turn(th, i, key))?;
                n += *times as usize * steps.len();
                judge().passed_all(me, n);
            }
            Act::Lock(l) | Act::Try(l, _) => {
                let inner = guards.iter().any(|g| g.0 == *l && g.1.is_some());
                let ticks = match act {
                    Act::Try(_, ticks) => Some(*ticks),
                    _ => None,
                };
                guards.push((*l, lock(th, me, *l, a, inner, ticks)));
            }
            Act::Unlock(at) => {
                let at = usize::from(*at);
                unlock(me, &mut guards, at);
            }
            Act::Add(at) => {
                if let Some((l, Some(Held::Data(guard)))) = guards.get_mut(usize::from(*at)) {
                    add(th, guard, [me as u32, a as u32, n as u32, u32::from(*l)]);
                    n += 1;
                }
            }
            Act::Delay(ticks) => {
                judge().delays(me, a, *ticks, live);
                th.delay(*ticks)?;
                judge().delayed(me, a);
            }
            Act::Join(t) => {
                judge().joins(me);
                let t = usize::from(*t);
                let join = |th: &mut Thread<'_, '_, '_, Plan, u32>| match t {
                    WORKER => join(th, Plan::worker()),
                    t => join(th, IDS[t]),
                };
                let mut end = join(th);
                if end == Ended::Parked {
                    unpark(t);
                    end = join(th);
                }
                judge().joined(me, t, end, live);
            }
            Act::Interrupt(op) => {
                if live {
                    software_interrupt(*op);
                }
            }
            Act::Work(ticks) => judge().works(me, *ticks, live, || work(*ticks)),
            Act::Energy => {
                let found = th.energy()?.expect("the board knows it");
                judge().finds_again(me, a, found, live);
            }
            Act::Fail => {
                fails = true;
                break;
            }
        }
    }
    while !guards.is_empty() {
        let last = guards.len() - 1;
        unlock(me, &mut guards, last);
    }
    if fails {
        judge().ends(me, Ended::Failed);
        return Err(Error::Aborted(5));
    }
    judge().ends(me, Ended::Well);
    Ok(())
}

/// Waits for the end of a thread.
fn join<A>(th: &mut Thread<'_, '_, '_, Plan, u32>, t: ThreadId<Plan, A>) -> Ended {
    match th.join(t) {
        Ok(()) => Ended::Well,
        Err(Error::Aborted(code::FAILED)) => Ended::Failed,
        Err(Error::Aborted(code::ABORTED)) => Ended::Aborted,
        Err(Error::Aborted(code::PARKED)) => Ended::Parked,
        Err(e) => panic!("a join ends with {e:?}"),
    }
}

/// Gives back a lock, if its mutex was there.
fn unlock(me: usize, guards: &mut Vec<(Number, Option<Held<'_, '_, '_>>)>, at: usize) {
    let found = guards.iter().take(at).filter(|g| g.1.is_some()).count();
    if let (_, Some(held)) = guards.remove(at) {
        judge().unlocks(me, found);
        drop(held);
    }
}

/// A turn of a loop of several steps.
fn turn(th: &mut Thread<'_, '_, '_, Plan, u32>, i: u32, key: Key) -> Result<(), Error> {
    let [t, a, n, _] = key;
    let program = judge().program;
    let Act::Each(_, l, steps) = &program.threads[t as usize][a as usize] else {
        unreachable!("it is no loop")
    };
    let mut guards = Vec::new();
    if let Some(l) = l {
        guards.push((*l, lock(th, t as usize, *l, a as usize, false, None)));
    }
    for part in 0..steps.len() as u32 {
        step(th, [t, a, n + i * steps.len() as u32 + part, part]);
    }
    if l.is_some() {
        // The outer locks come first.
        let held = guards.remove(0).1;
        judge().unlocks_last(t as usize);
        drop(held);
    }
    Ok(())
}

/// The machine's port, which tells the judge what the kernel decides.
struct Watch<'a>(&'a dyn Port, usize);

// SAFETY: that of the machine.
unsafe impl Port for Watch<'_> {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn switch(&self, to: Option<usize>) {
        // Nothing may panic while a failed thread's step and guards are dropped.
        if std::thread::panicking() {
            return;
        }
        match to {
            Some(t) => judge().runs(t),
            None => judge().idles(),
        }
        if !judge().is_wrong() {
            self.0.switch(to)
        }
    }
    fn ended(&self, t: usize) {
        if !std::thread::panicking() {
            judge().has_ended(t);
        }
        self.0.ended(t)
    }
    fn set_timer(&self, at: Option<u64>) {
        self.0.set_timer(at)
    }
    fn energy(&self) -> Option<u32> {
        Some(judge().energy())
    }
    fn observe(&self, event: Event) {
        if std::thread::panicking() {
            return;
        }
        if let Event::Commit { .. } = event {
            judge().commits(self.1);
        }
        self.0.observe(event)
    }
}

/// Makes the machine's threads with that port.
struct Watched<'a, K>(&'a mut K);

impl<'s, K: Spawn<'s>> Spawn<'s> for Watched<'_, K> {
    fn spawn(&mut self, t: usize, name: &'static str, body: impl FnOnce(&dyn Port) + 's) {
        self.0.spawn(t, name, move |port| body(&Watch(port, t)));
    }
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>, program: &Program) {
    drop(Judged); // a cut drops nothing
    let (kernel, mut threads) = Plan::open(nv).expect("an open");
    let (places, data) = Plan::share(&mut threads).expect("the places");
    let machine = Machine::default();
    let aborted = |t| kernel.ended(t) == Some(Err(Error::Aborted(code::ABORTED)));
    let judge_of_boot = Judge::new(w, program, PRIORITY);
    let _judged = Judged;
    w.threads(|t| {
        let kernel = &kernel;
        set_judge(&judge_of_boot, t);
        let kit = machine.start(t, kernel, |kit| {
            let base = kernel.isr(kit).now().expect("a clock");
            judge().boots(base, |t| kernel.priority(t), aborted);
            judge().boots_parked(|t| kernel.parked(t));
            let to = &mut Watched(kit);
            Plan::spawn(
                kernel,
                places,
                &data,
                to,
                |th| thread(th, 0),
                |th| thread(th, 1),
                |th| thread(th, 2),
                |th| thread(th, 3),
                |th| thread(th, 4),
                |th| thread(th, 5),
                |th| thread(th, 6),
                |th, argument| {
                    judge().was_spawned(argument);
                    thread(th, WORKER)
                },
            );
        });
        let handler = move |op: Op| {
            let isr = kernel.isr(&kit);
            judge().interrupted(op, |id| handle_interrupt(&isr, op, id).expect("a handler"));
        };
        set_handler(handler);
        let machine = &machine;
        set_unpark(move |t| {
            if judge().unparks(t) {
                machine.unparked(t);
                assert_eq!(kernel.unpark(t, &kit), Ok(true));
            }
        });
        let interrupt = move || judge().interrupts().into_iter().for_each(handler);
        t.interrupt("interrupt", interrupt);
        if program.preempted {
            // If all wait, and the schedule has taken another one first.
            t.interrupt("again", interrupt);
        }
    });
    drop(Judged); // there is no clock any more
    for t in 0..THREADS {
        let r = kernel.ended(t);
        let fails = program.threads[t].contains(&Act::Fail);
        let ended = matches!(r, Some(Ok(()))) || fails && r == Some(Err(Error::Aborted(5)));
        // A boot has only the code of what happened in a place before.
        let before = fails && r == Some(Err(Error::Aborted(code::FAILED)));
        // One that was joined before the cut, and comes to its end again.
        let stops = aborted(t) || kernel.parked(t);
        assert!(ended || before || stops, "thread {t} has ended with {r:?}");
    }
    judge_of_boot.over(aborted);
    judge_of_boot.check();
}

/// What a handler does. Whether it could.
fn handle_interrupt(isr: &Isr<'_, '_, Plan>, op: Op, id: u32) -> Result<bool, Error> {
    let done = |()| true;
    match op {
        Op::Give(n) => SEMAPHORES[usize::from(n)].give_from_isr(isr),
        Op::Send(n, _) => on_queue!(n, |o| o.send_from_isr(isr, message(id))),
        Op::Set(0, flags) => FLAGS.set_from_isr(isr, flags).map(done),
        Op::Set(n, flags) if usize::from(n) > WORKER => {
            Plan::worker().notify_from_isr(isr, flags).map(done)
        }
        Op::Set(n, flags) => IDS[usize::from(n) - 1].notify_from_isr(isr, flags).map(done),
        Op::Start(n) => TIMERS[usize::from(n)].start_from_isr(isr).map(done),
        Op::Stop(n) => TIMERS[usize::from(n)].stop_from_isr(isr).map(done),
        // The event is there: its thread looks again.
        Op::Until(t, _) => {
            IDS[t as usize].wake_from_isr(isr);
            Ok(true)
        }
        op => unreachable!("no handler does {op:?}"),
    }
}
