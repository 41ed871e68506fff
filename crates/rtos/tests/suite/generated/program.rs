//! Generated programs: what each thread does, as data, and what makes them from a seed.

/// Threads of each system. The auditor joins the others and empties every object; the last one is
/// spawned at run time.
pub const THREADS: usize = 8;
pub const AUDITOR: usize = 6;
pub const WORKER: usize = 7;
/// Semaphores: their first numbers and their maxima. Nobody gives the last one.
pub const FIRST: [u8; 3] = [0, 3, 0];
pub const MAX: [u8; 3] = [1, 200, 1];
pub const NEVER: u8 = 2;
/// Slots of the queues.
pub const SLOTS: [usize; 2] = [1, 32];
/// Periods of the timers. The first one is periodic.
pub const PERIOD: [u64; 2] = [10, 7];
/// Mutexes. The last ones have data.
pub const LOCKS: usize = 5;
pub const WITH_DATA: u8 = 3;
/// Event groups: one, and the notifications of each thread.
pub const GROUPS: usize = 1 + THREADS;
/// Places for objects that are made: the maximum of semaphores, slots of a queue, a timer's period.
pub const PERMITS: usize = 2;
pub const PERMITS_MAX: u8 = 2;
pub const LETTERS: usize = 2;
pub const ALARM: u32 = 5;

/// In a system that parks threads: a boot counts after so many ticks.
pub const LONG: u64 = 10;

/// How long a call waits: `Some(0)` not at all, `None` for ever.
pub type Wait = Option<u64>;

/// The number of an object: below 16 one of the system, otherwise one that was made, in the place
/// `n / 16 - 1` as its handle of the count `n % 16` says.
pub type Number = u8;

/// The place and the count of an object that was made.
pub fn made(n: Number) -> Option<(u8, u8)> {
    Some(((n / 16).checked_sub(1)?, n % 16))
}

/// What is made and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Semaphore,
    Queue,
    Group,
    Timer,
    Mutex,
}

/// A call in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Give(Number),
    TryGive(Number),
    Take(Number, Wait),
    Send(Number, Wait),
    Receive(Number, Wait),
    /// In the group 0, or as notifications of the thread before this number.
    Set(Number, u8),
    /// In the group 0, or any other for the notifications of the thread itself. Flags, all of them
    /// or any.
    Flags(Number, u8, bool, Wait),
    Start(Number),
    Stop(Number),
    IsActive(Number),
    Expired,
    /// Waits until handlers have posted so many events.
    Until(u32, Wait),
    Make(Kind),
    Delete(Kind, Number),
    Priority(u8, u8),
    Abort(u8),
    /// Waits for the place, or does not.
    Spawn(bool),
}

impl Op {
    /// How long it waits, if it may wait.
    pub fn wait(self) -> Wait {
        match self {
            Op::Take(_, w) | Op::Send(_, w) | Op::Receive(_, w) => w,
            Op::Flags(_, _, _, w) | Op::Until(_, w) => w,
            Op::Expired | Op::Abort(_) | Op::Delete(..) | Op::Spawn(true) => None,
            _ => Some(0),
        }
    }
}

/// How a step with something beside the kernel ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Commits,
    /// Its body fails after the calls.
    Fails,
    /// What is beside the kernel refuses.
    IsRefused,
}

/// What a thread does between steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The calls, and whether the body fails after them.
    Step(Vec<Op>, bool),
    /// A step with something beside the kernel that takes part in its commit.
    Beside(Vec<Op>, End),
    /// So many turns of `each_step`.
    Loop(u32, Vec<Op>),
    /// So many turns of `each`, with a lock in each, and these steps.
    Each(u32, Option<Number>, Vec<Vec<Op>>),
    Lock(Number),
    /// Locks it if that takes no more than so many ticks.
    Try(Number, u64),
    /// Gives back the lock of this number, of those that are held.
    Unlock(u8),
    /// A step that adds to the data of this lock, of those that are held, if it has data.
    Add(u8),
    Delay(u64),
    /// A handler comes here, and does this.
    Interrupt(Op),
    /// Runs for so many ticks, without a call.
    Work(u64),
    /// Asks how much energy is left.
    Energy,
    /// The thread ends with an error.
    Fail,
    Join(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    pub threads: [Vec<Act>; THREADS],
    /// The campaign explores preemptions: the clock and interrupts come anywhere.
    pub preempted: bool,
}

impl Program {
    /// No thread is preempted.
    pub fn new(threads: [Vec<Act>; THREADS]) -> Self {
        Program {
            threads,
            preempted: false,
        }
    }
}

/// All ordinary threads are joined.
pub fn joins() -> Vec<Act> {
    (0..AUDITOR as u8).map(Act::Join).collect()
}
