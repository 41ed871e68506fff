//! The environment of a program: its script, where it is in it, and drivers, all of which are the
//! world. The bodies of its steps.

use super::judge::{Outside, Plan, Top, steps};
use super::program::{Op, Opening, Script};
use nv_replay::nvmem::{Model, Persist};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Clock, Error, Held, Message, NotNow, Outlet, PBox, Port, Root, Step};
use powerfail::World;
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// What the runtime makes durable, beside what it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durable {
    /// Each commit, before its call returns.
    Commits,
    /// Each commit, before the program waits.
    Waits,
    Nothing,
}

pub struct Drivers<'a, 'r> {
    pub world: &'a World<'r, Outside>,
    script: &'a Script,
    plan: &'a Plan,
    durable: Durable,
    /// Whether messages wait for `drain_async`.
    queues: bool,
    /// The loops that the program is in: which operation of its block each is, and how many steps
    /// there were before it.
    loops: Vec<(usize, u32)>,
    /// The steps of the program so far.
    steps: u32,
    /// Calls until the program is given up.
    calls: Option<u32>,
    /// So many steps had been seen when the current call began.
    seen: u32,
    /// The sum of the inputs after so many steps, where it was looked at last.
    inputs: (u32, u32),
}

/// The error of a program that is given up.
pub const GIVEN_UP: Error = Error::Aborted(999);

pub static RADIO: Port<Top> = Port::new(1);

impl<'a, 'r> Drivers<'a, 'r> {
    pub fn new(
        world: &'a World<'r, Outside>,
        script: &'a Script,
        plan: &'a Plan,
        durable: Durable,
        opening: Opening,
    ) -> Self {
        Drivers {
            world,
            script,
            plan,
            durable,
            queues: false,
            loops: vec![],
            steps: 0,
            calls: opening.calls.checked_sub(1).map(u32::from),
            seen: 0,
            inputs: (0, 0),
        }
    }

    /// All messages wait for `drain_async`.
    pub fn queues(mut self) -> Self {
        self.queues = true;
        self
    }

    fn block(&self) -> &'a [Op] {
        let mut block = &self.script.ops;
        for (k, _) in &self.loops {
            let Op::Loop(_, body) = &block[*k] else {
                unreachable!("a loop")
            };
            block = body;
        }
        block
    }

    /// The k-th operation of the block that the program is in.
    ///
    /// **Errors**: the program is given up here.
    pub fn op(&mut self, k: usize) -> Result<Option<&'a Op>, Error> {
        match &mut self.calls {
            Some(0) => return Err(GIVEN_UP),
            Some(calls) => *calls -= 1,
            None => {}
        }
        RAN.take();
        self.seen = self.world.with(|w| w.seen);
        Ok(self.block().get(k))
    }

    /// The loop at `k` is entered.
    pub fn enters(&mut self, k: usize) {
        self.loops.push((k, self.steps));
    }

    /// Its i-th iteration begins.
    pub fn iterates(&mut self, i: u32) {
        let (_, before) = *self.loops.last().expect("a loop");
        self.steps = before + i * steps(self.block());
    }

    /// It has ended after `n` iterations.
    pub fn leaves(&mut self, n: u32) {
        self.iterates(n);
        self.loops.pop();
    }

    /// A call with a step returned this, or its record did.
    #[track_caller]
    pub fn did(&mut self, top: Top) {
        let (plan, steps) = (self.plan, self.steps + 1);
        self.world.with(|w| w.holds(plan, top, steps));
        self.inputs = (steps, top[2]);
        self.did_steps(1);
    }

    /// A call with so many steps returned.
    #[track_caller]
    pub fn did_steps(&mut self, n: u32) {
        if let Some(first) = RAN.take() {
            let (step, seen) = (self.steps + first, self.seen);
            assert!(step >= seen, "step {step} runs again, and {seen} were seen");
        }
        self.steps += n;
        if self.durable == Durable::Commits {
            self.is_seen();
        }
    }

    /// Something outside sees what the program has done.
    pub fn is_seen(&self) {
        let (steps, (known, sum)) = (self.steps, self.inputs);
        if self.world.with(|w| w.seen < steps) {
            self.world.update(|w| {
                w.settles(known, sum);
                w.sees(steps)
            });
        }
    }

    /// The program waits for something outside.
    fn waits(&self) {
        if self.durable != Durable::Nothing {
            self.is_seen();
        }
    }

    /// Another value each time.
    pub fn sensor(&mut self) -> u32 {
        let (n, mut value) = (self.steps, 0);
        self.world.update(|w| value = w.reads(n));
        value
    }

    pub async fn sensor_async(&mut self) -> u32 {
        self.waits();
        yields().await;
        let value = self.sensor();
        yields().await;
        value
    }

    pub fn clock(&self, survives: bool) -> Alarm<'a, 'r> {
        Alarm {
            world: self.world,
            step: self.steps,
            inputs: self.inputs,
            saved: self.durable != Durable::Nothing,
            recorded: survives && self.durable != Durable::Nothing,
            // The other clock begins anew in each boot.
            since: self.world.with(|w| w.clock),
        }
    }

    fn receives(&self, m: &Message<'_>) -> Result<(), NotNow> {
        // Now and then the radio is busy.
        self.world.update(|w| w.attempts += 1);
        if self.world.with(|w| w.attempts % 4 == 2) {
            return Err(NotNow);
        }
        let top = m.get(&RADIO).expect("the port").expect("numbers");
        self.world.update(|w| w.receives(self.plan, m.number, top));
        Ok(())
    }

    pub async fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        yields().await;
        let sent = self.receives(m);
        yields().await;
        sent
    }

    /// What must hold at the end.
    pub fn ends(&self) {
        let (plan, w) = (self.plan, self.world.get());
        assert_eq!(w.received.len(), plan.messages(), "messages");
        assert_eq!(self.steps, plan.steps(), "steps");
    }
}

impl Outlet for Drivers<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        assert!(!self.queues, "over an async medium it gets no message");
        self.receives(m)
    }
}

/// Is pending once.
pub async fn yields() {
    let mut first = true;
    poll_fn(|_| match std::mem::replace(&mut first, false) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

/// One of the two clocks, before step `step`.
pub struct Alarm<'a, 'r> {
    world: &'a World<'r, Outside>,
    step: u32,
    inputs: (u32, u32),
    /// Whether what came before is durable, and the deadline too.
    saved: bool,
    recorded: bool,
    since: u64,
}

impl Alarm<'_, '_> {
    async fn ticks_until(&mut self, at: u64) {
        let (step, recorded) = (self.step, self.recorded);
        let (known, sum) = self.inputs;
        self.world.update(|w| {
            w.sleeps(step, at, recorded);
            if self.saved {
                w.settles(known, sum);
                w.sees(step);
            }
        });
        while self.world.with(|w| w.clock) < at {
            self.world.update(|w| w.clock += 1);
            yields().await;
        }
    }
}

/// The clock with a battery.
pub struct Battery<'a, 'r>(pub Alarm<'a, 'r>);
impl Clock for Battery<'_, '_> {
    const SURVIVES: bool = true;
    fn now(&mut self) -> u64 {
        self.0.world.with(|w| w.clock)
    }
    async fn until(&mut self, at: u64) {
        self.0.ticks_until(at).await;
    }
}

/// The clock without one.
pub struct Uptime<'a, 'r>(pub Alarm<'a, 'r>);
impl Clock for Uptime<'_, '_> {
    const SURVIVES: bool = false;
    fn now(&mut self) -> u64 {
        self.0.world.with(|w| w.clock) - self.0.since
    }
    async fn until(&mut self, at: u64) {
        let at = self.0.since + at;
        self.0.ticks_until(at).await;
    }
}

std::thread_local! {
    /// Which turn the body ran for first since the last call; 0 if it is no loop of one step.
    pub static RAN: Cell<Option<u32>> = const { Cell::new(None) };
}

pub fn runs(turn: u32) {
    if RAN.get().is_none() {
        RAN.set(Some(turn));
    }
}

#[derive(Persist)]
#[repr(C)]
pub struct Objects {
    top: Top,
}

impl Objects {
    pub const NEW: Self = Objects { top: [0; 3] };
}

/// Counts a step, which adds to the sums.
pub fn count<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    objects: &mut Root<'p, Objects, M::Unit>,
    [fixed, input]: [u32; 2],
) -> Result<Top, pmem_tx::Error>
where
    M::Unit: Width,
{
    let top = &mut objects.get_mut(tx)?.top;
    *top = [top[0] + 1, top[1] + fixed, top[2] + input];
    Ok(*top)
}

// Bodies are functions: they capture nothing.

/// The plainest step.
pub fn adds<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    objects: &mut Root<'p, Objects, M::Unit>,
    adds: [u32; 2],
) -> Result<Top, pmem_tx::Error>
where
    M::Unit: Width,
{
    runs(0);
    count(tx, objects, adds)
}

/// Changes everything, and aborts.
pub fn fails<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    objects: &mut Root<'p, Objects, M::Unit>,
    code: u16,
) -> Result<(), pmem_tx::Error>
where
    M::Unit: Width,
{
    objects.get_mut(tx)?.top = [9; 3];
    let _ = PBox::new(tx, [7_u32; 3])?;
    tx.send(&RADIO, [9; 3])?;
    Err(tx.abort(code))
}

/// Its error is the result of the step, in each boot. **Errors**: those of the runtime.
#[track_caller]
pub fn is_recorded(done: Result<(), Error>, code: u16) -> Result<(), Error> {
    match done {
        Err(Error::Aborted(found)) if found == code => Ok(()),
        Err(e) => Err(e),
        Ok(()) => panic!("a step that failed has succeeded"),
    }
}

pub fn sends<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    objects: &mut Root<'p, Objects, M::Unit>,
    (): (),
) -> Result<Top, pmem_tx::Error>
where
    M::Unit: Width,
{
    runs(0);
    let top = count(tx, objects, [0, 0])?;
    tx.send(&RADIO, top)?;
    Ok(top)
}

/// A turn of a loop of one step.
pub fn turns<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    objects: &mut Root<'p, Objects, M::Unit>,
    turn: u32,
    sends: bool,
) -> Result<(), pmem_tx::Error>
where
    M::Unit: Width,
{
    runs(turn);
    let top = count(tx, objects, [turn, 0])?;
    if sends && turn % 2 == 1 {
        tx.send(&RADIO, top)?;
    }
    Ok(())
}

/// A handle of an object on a medium of this model.
pub type Handle<M> = Held<Top, <M as Model>::Unit>;

/// An object's life: it is made, changed, and taken apart.
macro_rules! object {
    ($rt:ident, $value:expr) => {{
        let mut object =
            $rt.step_own::<_, Handle<M>>(u32::from($value), |tx, objects, value| {
                runs(0);
                count(tx, objects, [0, 0])?;
                PBox::new(tx, [value; 3])
            })?;
        $rt.env().did_steps(1);
        let top = $rt.step(object.lend(), |tx, objects, mut object| {
            runs(0);
            object.get_mut(tx)?[1] += 1;
            count(tx, objects, [0, 0])
        })?;
        $rt.env().did(top);
        let top = $rt.step(object, |tx, objects, object| {
            runs(0);
            let [value, changed, _] = object.into_inner(tx)?;
            assert_eq!(changed, value + 1, "it was changed once");
            count(tx, objects, [changed, 0])
        })?;
        $rt.env().did(top);
    }};
}
pub(super) use object;
