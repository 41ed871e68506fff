//! The kernel: who runs, who waits for what, and what a step's commit does to the objects.
//!
//! Everything here is volatile, but for the [`Store`]. It changes in critical sections only.
//!
//! ```text
//!  step of thread 2                                    Ready, Waiting, order, locks: volatile
//!    take(SEM)   --> operations of 2: | SEM: take 1 |  a claim: others see one less
//!    send(Q, m)  --> slot <- m        | Q slot 3: fill |  a reservation: the slot is not full yet
//!  commit, one critical section
//!    1 sweep: settle old words of this thread
//!    2 SEM word <- (2, n, old, old - 1)     \ in doubt until 4
//!      Q word 3 <- (2, n, empty, full 17)   /
//!    3 fence
//!    4 header or state word of the step's record <- n      the commit store
//!    5 fence; wake who waits for SEM or Q; pick the next thread
//! ```

use crate::error::{OpenError, code};
use crate::port::Port;
use crate::system::{Kind, ObjectSpec, System, fingerprint};
use crate::tags::{self, Store};
use crate::{LOCKS_MAX, OPERATIONS_MAX, THREADS_MAX};
use core::cell::RefCell;
use core::marker::PhantomData;
use nv_replay::nvmem::superblock::{self, State as Found, Superblock};
use nv_replay::nvmem::tagged::{Stamp, TagError};
use nv_replay::nvmem::{Model, Region, planted};
use nv_replay::{Commit, Committed, Error, Outlet, Token, pmem_tx};

/// The object of a thread that waits for time only, or for the end of a thread.
const NOTHING: u8 = 0xff;
const AN_END: u8 = 0xfe;
/// Tickets of messages run from 0 to 127. Those in a queue lie within half of that.
const TICKETS: u8 = 128;
const FULL: u8 = 0x80;

/// What a step does to one word when it commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A semaphore.
    Count { taken: u8, given: u8 },
    /// A slot of a queue gets a message.
    Fill,
    /// A message leaves its slot.
    Drain,
    /// Flags of an event group; a flag that is both cleared and set is set.
    Bits { clear: u8, set: u8 },
}

/// An operation that waits for the commit of its step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub object: u8,
    pub word: u16,
    pub change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Ready,
    /// For an object, until the clock shows this.
    Waiting {
        object: u8,
        until: u64,
    },
    Ended(Result<(), Error>),
}

/// A mutex that a thread has locked.
#[derive(Debug, Clone, Copy)]
struct Hold {
    object: u8,
    /// Locked. Otherwise the thread replays, and locks it when it is live.
    locked: bool,
    /// A call was made under it, so a record was, or will be.
    used: bool,
}

/// A thread, as the kernel sees it.
#[derive(Clone, Copy)]
struct Control {
    priority: u8,
    status: Status,
    /// It has passed its records.
    live: bool,
    operations: [Operation; OPERATIONS_MAX],
    len: u8,
    holds: [Hold; LOCKS_MAX],
    held: u8,
    /// The number of its last sweep.
    swept: u32,
    /// At most so many numbers were used since.
    unswept: u32,
    /// A time that the step has read.
    read: u64,
}

impl Control {
    const NONE: Control = Control {
        priority: 0,
        status: Status::Ended(Ok(())),
        live: false,
        operations: [Operation {
            object: NOTHING,
            word: 0,
            change: Change::Drain,
        }; OPERATIONS_MAX],
        len: 0,
        holds: [Hold {
            object: NOTHING,
            locked: false,
            used: false,
        }; LOCKS_MAX],
        held: 0,
        swept: 0,
        unswept: 0,
        read: 0,
    };

    fn operations(&self) -> &[Operation] {
        self.operations.get(..self.len.into()).unwrap_or(&[])
    }
    fn holds(&self) -> &[Hold] {
        self.holds.get(..self.held.into()).unwrap_or(&[])
    }
}

/// The kernel's state.
pub(crate) struct State<'m, M> {
    pub store: Store<'m, M>,
    specs: &'static [ObjectSpec],
    /// The clock at the boot, and the last time that is on the medium.
    base: u64,
    stored: u64,
    threads: [Control; THREADS_MAX],
    count: usize,
    /// Of threads of one priority the first is next.
    order: [u8; THREADS_MAX],
    current: Option<usize>,
    /// The priority at which it runs.
    rank: u8,
    timer: Option<u64>,
}

/// What a call inside a step fails with.
pub(crate) fn abort(code: u16) -> pmem_tx::Error {
    pmem_tx::Error::Aborted(code)
}

pub(crate) fn damaged(_: TagError) -> pmem_tx::Error {
    abort(code::DAMAGED)
}

/// The number of a thread's last commit.
fn last_of(threads: &[Control]) -> impl Fn(u32) -> Option<u32> {
    |owner| threads.get(owner as usize).map(|c| c.swept)
}

impl<M: Model> State<'_, M> {
    fn control(&mut self, t: usize) -> &mut Control {
        // Never out of range: a thread's number comes from the kernel.
        &mut self.threads[t % THREADS_MAX]
    }
    fn all(&self) -> &[Control] {
        self.threads.get(..self.count).unwrap_or(&[])
    }

    /// The clock.
    pub fn now(&self, port: &dyn Port) -> u64 {
        self.base.saturating_add(port.now())
    }

    /// Stores a time that a thread is about to know.
    fn reach(&mut self, time: u64) -> Result<(), TagError> {
        if time > self.stored && !planted!("nv-rtos/clock-not-stored") {
            self.store.set_time(time)?;
            self.stored = time;
        }
        Ok(())
    }

    /// The committed state of a word.
    pub fn get(&self, word: u16) -> Result<u8, pmem_tx::Error> {
        let last = last_of(&self.threads);
        self.store.get(word, last).map_err(damaged)
    }

    // Operations.

    /// All operations that wait for a commit, with their threads.
    pub fn pending(&self, word: u16) -> impl Iterator<Item = (usize, Change)> {
        let each = move |(t, c): (usize, &Control)| {
            let mine = c.operations().iter().filter(move |o| o.word == word);
            mine.map(|o| (t, o.change)).next_back()
        };
        self.all().iter().enumerate().filter_map(each)
    }

    /// The change of a thread to a word, which is none at first.
    pub fn change(
        &mut self,
        t: usize,
        object: u8,
        word: u16,
        none: Change,
    ) -> Result<&mut Change, pmem_tx::Error> {
        let c = self.control(t);
        let len = usize::from(c.len);
        let mut at = c.operations().iter().position(|o| o.word == word);
        if planted!("nv-rtos/operations-not-merged") {
            at = None;
        }
        let at = at.unwrap_or(len);
        if at == len && len < OPERATIONS_MAX {
            c.len += 1;
        }
        let o = c.operations.get_mut(at).ok_or(abort(code::TOO_MANY))?;
        if at == len {
            *o = Operation {
                object,
                word,
                change: none,
            };
        }
        Ok(&mut o.change)
    }

    /// The `i`-th operation of a thread's step.
    fn operation(&mut self, t: usize, i: usize) -> Option<Operation> {
        self.control(t).operations().get(i).copied()
    }

    /// Changes a word at once.
    fn publish(&mut self, word: u16, state: u8) -> Result<(), pmem_tx::Error> {
        let last = last_of(&self.threads);
        self.store.publish(word, state, last).map_err(damaged)
    }

    /// The state after an operation. `behind` counts the messages of this step before it.
    fn after(&self, o: &Operation, behind: u8) -> Result<u8, pmem_tx::Error> {
        let old = self.get(o.word)?;
        Ok(match o.change {
            Change::Count { taken, given } => old.saturating_add(given).saturating_sub(taken),
            Change::Fill => FULL | ((self.next_ticket(o.object)? + behind) % TICKETS),
            Change::Drain => 0,
            Change::Bits { clear, set } => (old & !clear) | set,
        })
    }

    // Queues.

    fn next_ticket(&self, object: u8) -> Result<u8, pmem_tx::Error> {
        let mut found = Tickets::default();
        for word in self.words(object) {
            found.see(self.get(word)?);
        }
        let newest = found.ends.map_or(TICKETS - 1, |(_, newest)| newest);
        Ok((newest + 1) % TICKETS)
    }

    /// The slots of a queue that are reserved or claimed: a bit for each, from that of `first` on.
    fn in_use(&self, object: u8, first: u16) -> u32 {
        let operations = self.all().iter().flat_map(Control::operations);
        let mine = operations.filter(|o| o.object == object);
        mine.fold(0, |all, o| all | 1 << (o.word.wrapping_sub(first) & 31))
    }

    /// The words of an object.
    pub fn words(&self, object: u8) -> core::ops::Range<u16> {
        let spec = self.specs.get(usize::from(object));
        spec.map_or(0..0, |s| s.word..s.word + s.words)
    }

    /// A slot for a message: empty, and reserved by nobody.
    pub fn free_slot(&self, object: u8) -> Result<Option<u16>, pmem_tx::Error> {
        let mut free = None;
        let mut reserved = 0u8;
        let mut found = Tickets::default();
        let words = self.words(object);
        let in_use = self.in_use(object, words.start);
        for word in words.clone() {
            let state = self.get(word)?;
            let empty = state & FULL == 0;
            found.see(state);
            let taken = in_use >> (word - words.start) & 1 != 0;
            if taken && !planted!("nv-rtos/reserved-slot-given-away") {
                reserved += u8::from(empty);
            } else if empty {
                free = free.or(Some(word));
            }
        }
        if let Some((oldest, newest)) = found.ends {
            let span = newest.wrapping_sub(oldest) % TICKETS;
            let laps = span + reserved + 1 >= TICKETS / 2;
            if laps && !planted!("nv-rtos/tickets-lap") {
                return Ok(None);
            }
        }
        Ok(free)
    }

    /// The slot of the oldest message that nobody has claimed.
    pub fn oldest_slot(&self, object: u8) -> Result<Option<u16>, pmem_tx::Error> {
        let mut found: Option<(u16, u8)> = None;
        let words = self.words(object);
        let in_use = self.in_use(object, words.start);
        for word in words.clone() {
            let state = self.get(word)?;
            let claimed = in_use >> (word - words.start) & 1 != 0;
            if state & FULL == 0 || claimed && !planted!("nv-rtos/claims-ignored") {
                continue;
            }
            let t = state & !FULL;
            let newest_first = planted!("nv-rtos/newest-first");
            if found.is_none_or(|(_, oldest)| is_before(t, oldest) ^ newest_first) {
                found = Some((word, t));
            }
        }
        Ok(found.map(|(word, _)| word))
    }

    // Mutexes.

    /// The thread that has a mutex locked, or whose lock has survived a power cut.
    fn holder(&self, object: u8) -> Result<Option<usize>, pmem_tx::Error> {
        let locks = |c: &Control| c.holds().iter().any(|h| h.object == object && h.locked);
        if let Some(t) = self.all().iter().position(locks) {
            return Ok(Some(t));
        }
        let owner = usize::from(self.get(self.words(object).start)?);
        let owner = owner.checked_sub(1).filter(|t| {
            let replays = self.all().get(*t).is_some_and(|c| !c.live);
            replays && !planted!("nv-rtos/owner-ignored-at-boot")
        });
        Ok(owner)
    }

    /// Locks a mutex for a thread, if no other thread has it.
    fn try_lock(&mut self, t: usize, object: u8) -> Result<Option<()>, pmem_tx::Error> {
        if self.holder(object)?.is_some_and(|holder| holder != t) {
            return Ok(None);
        }
        self.hold(t, object, true)?;
        Ok(Some(()))
    }

    /// Notes that a thread holds a mutex, or is to.
    fn hold(&mut self, t: usize, object: u8, locked: bool) -> Result<(), pmem_tx::Error> {
        let c = self.control(t);
        let len = usize::from(c.held);
        let at = c.holds().iter().position(|h| h.object == object);
        let at = at.unwrap_or(len);
        let h = c.holds.get_mut(at).ok_or(abort(code::LOCKS))?;
        if at == len {
            c.held += 1;
            h.used = false;
        }
        (h.object, h.locked) = (object, locked);
        Ok(())
    }

    /// Whether a lock that a replay has come to was given back in an earlier life.
    fn has_ended(&self, t: usize, h: Hold) -> Result<bool, pmem_tx::Error> {
        let owner = usize::from(self.get(self.words(h.object).start)?);
        Ok(h.used && owner != t + 1)
    }

    /// Stores who holds the mutexes of a thread, before the thread commits anything under them.
    fn store_owners(&mut self, t: usize) -> Result<(), pmem_tx::Error> {
        let mut next = 0;
        while let Some(h) = self.control(t).holds().get(next).copied() {
            next += 1;
            let word = self.words(h.object).start;
            let mine = t as u8 + 1;
            let other = h.locked && self.get(word)? != mine;
            if other && !planted!("nv-rtos/owner-not-stored") {
                self.publish(word, mine)?;
            }
        }
        Ok(())
    }

    // Scheduling.

    /// Makes the threads ready that wait for an object. Whether there was one.
    pub fn wake(&mut self, object: u8) -> bool {
        if planted!("nv-rtos/missed-wake-up") {
            return false;
        }
        self.wake_if(|status| matches!(status, Status::Waiting { object: o, .. } if *o == object))
    }

    fn wake_if(&mut self, wakes: impl Fn(&Status) -> bool) -> bool {
        let mut woke = false;
        for t in 0..self.count {
            if wakes(&self.control(t).status) {
                self.control(t).status = Status::Ready;
                self.move_to_back(t);
                woke = true;
            }
        }
        woke
    }

    fn move_to_back(&mut self, t: usize) {
        let order = self.order.get_mut(..self.count).unwrap_or_default();
        if let Some(at) = order.iter().position(|o| usize::from(*o) == t) {
            order.get_mut(at..).unwrap_or_default().rotate_left(1);
        }
    }

    /// The thread that runs so that `t`, which waits for a mutex, comes on: who holds it.
    fn runs_for(&self, t: usize) -> Option<usize> {
        let mut t = t;
        for _ in 0..self.count {
            match self.all().get(t)?.status {
                Status::Ready => return Some(t),
                Status::Waiting { object, .. } if self.kind(object) == Some(Kind::Mutex) => {
                    if planted!("nv-rtos/priority-not-inherited") {
                        return None;
                    }
                    t = self.holder(object).ok()??;
                }
                _ => return None,
            }
        }
        None
    }

    fn kind(&self, object: u8) -> Option<Kind> {
        self.specs.get(usize::from(object)).map(|s| s.kind)
    }

    /// The next thread, and the priority at which it runs: of the threads that are ready, or wait
    /// for a mutex whose holder is, the one of the highest priority that is first.
    fn pick(&self) -> Option<(usize, u8)> {
        let mut best: Option<(usize, u8)> = None;
        for t in self.order.iter().take(self.count) {
            let t = usize::from(*t);
            let Some(c) = self.all().get(t) else { continue };
            if best.is_some_and(|(_, rank)| c.priority <= rank) {
                continue;
            }
            if let Some(runs) = self.runs_for(t) {
                best = Some((runs, c.priority));
            }
        }
        best
    }

    /// Sets the timer, and switches to the thread that is to run now.
    fn reschedule(&mut self, port: &dyn Port) {
        let deadline = |c: &Control| match c.status {
            Status::Waiting { until, .. } if until != u64::MAX => Some(until),
            _ => None,
        };
        let timer = self.all().iter().filter_map(deadline).min();
        if timer != self.timer {
            self.timer = timer;
            port.set_timer(timer.map(|at| at.saturating_sub(self.base)));
        }
        #[cfg(feature = "instrument")]
        self.tell(port);
        let next = self.pick();
        self.rank = next.map_or(0, |(_, rank)| rank);
        let next = next.map(|(t, _)| t);
        if next != self.current {
            port.switch(self.current, next);
            self.current = next;
        }
    }

    /// Tells a test kit who is ready.
    #[cfg(feature = "instrument")]
    fn tell(&self, port: &dyn Port) {
        for (thread, c) in self.all().iter().enumerate() {
            let at = (c.status == Status::Ready).then_some(c.priority);
            port.observe(crate::port::Event::Ready { thread, at });
        }
    }

    // Commits.

    /// Settles all words of a thread. Then its numbers can be used again without a sweep.
    fn settle(&mut self, t: usize, seq: &Sequence) -> Result<(), TagError> {
        let c = self.control(t);
        let mut sequence = c.swept;
        for _ in 0..=c.unswept {
            sequence = seq.next(sequence);
        }
        c.unswept = 0;
        // From any other number a sweep comes to all words before it comes to this one.
        let owner = t as u32;
        self.store
            .sweep(Stamp { owner, sequence }, seq.next(sequence))?;
        // The number of the last sweep stays: the next one begins there.
        Ok(())
    }

    /// Prepares for a call that may use a number for which no joiner is asked.
    fn before_a_number(&mut self, t: usize, seq: &Sequence) -> Result<(), Error> {
        if self.control(t).unswept + 2 > seq.most && !planted!("nv-rtos/records-not-counted") {
            self.settle(t, seq)
                .map_err(|_| Error::Aborted(code::DAMAGED))?;
        }
        self.control(t).unswept += 1;
        self.control(t).holds.iter_mut().for_each(|h| h.used = true);
        self.store_owners(t)?;
        Ok(())
    }
}

/// Whether a ticket is older than another one in the same queue.
fn is_before(a: u8, b: u8) -> bool {
    let distance = b.wrapping_sub(a) % TICKETS;
    distance != 0 && distance < TICKETS / 2
}

/// The oldest and the newest ticket of the messages in a queue.
#[derive(Default)]
struct Tickets {
    ends: Option<(u8, u8)>,
}

impl Tickets {
    fn see(&mut self, state: u8) {
        if state & FULL == 0 {
            return;
        }
        let t = state & !FULL;
        let (oldest, newest) = self.ends.unwrap_or((t, t));
        self.ends = Some((
            if is_before(t, oldest) { t } else { oldest },
            if is_before(newest, t) { t } else { newest },
        ));
    }
}

/// The sequence numbers of the threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sequence {
    bits: u8,
    /// How many numbers may be used without a sweep.
    most: u32,
}

impl Sequence {
    fn next(self, n: u32) -> u32 {
        if n >= self.last() { 1 } else { n + 1 }
    }
    fn before(self, n: u32) -> u32 {
        if n <= 1 { self.last() } else { n - 1 }
    }
    fn last(self) -> u32 {
        (1u32 << self.bits) - 1
    }
}

/// The kernel of a system. [`System::open`](crate::system!) makes it at each boot.
pub struct Kernel<'m, S: System> {
    state: RefCell<State<'m, S::Model>>,
    seq: Sequence,
    _s: PhantomData<fn() -> S>,
}

impl<'m, S: System> Kernel<'m, S> {
    /// Bytes of the kernel's part of the region.
    pub(crate) const BYTES: usize =
        Superblock::BYTES + tags::bytes::<S::Model>(S::END.word as usize, S::END.slots as usize);

    /// Opens the kernel's part of the region. `numbers` are those of the threads' last commits.
    pub(crate) fn open(
        mut region: Region<'m, S::Model>,
        numbers: &[u32],
    ) -> Result<Self, OpenError> {
        let seq_bits = S::TABLE.seq_bits;
        let words = usize::from(S::END.word);
        let mine = Superblock {
            kind: *b"RTOS",
            version: 1,
            fingerprint: fingerprint::<S>(),
            params: [
                seq_bits.into(),
                S::END.word.into(),
                S::END.slots,
                0,
                0,
                0,
                0,
                0,
            ],
        };
        let found = superblock::probe(&region, &mine);
        let blank = match found {
            Found::Ready(stored) => {
                if !planted!("nv-rtos/layout-not-compared") {
                    stored.check_layout(&mine)?;
                }
                if stored.params != mine.params {
                    return Err(OpenError::Foreign);
                }
                false
            }
            Found::Blank | Found::Formatting => true,
            Found::Foreign => return Err(OpenError::Foreign),
            Found::Damaged => return Err(OpenError::Damaged),
        };
        if blank {
            superblock::begin(&mut region, &mine);
        }
        let split = region.split_at(Superblock::BYTES);
        let (mut head, rest) = split.map_err(|_| OpenError::TooSmall)?;
        let mut store;
        if blank {
            store = Store::format(rest, words, seq_bits)?;
            for spec in S::OBJECTS.iter().filter(|s| s.initial != 0) {
                store.publish(spec.word, spec.initial, |_| Some(0))?;
            }
            superblock::finish(&mut head, &mine);
        } else {
            let last: &[u32] = if planted!("nv-rtos/nothing-is-reverted") {
                &[u32::MAX; THREADS_MAX]
            } else {
                numbers
            };
            store = Store::recover(rest, words, seq_bits, last)?;
        }
        let time = store.time()?;
        let mut threads = [Control::NONE; THREADS_MAX];
        let mut order = [0; THREADS_MAX];
        for (t, spec) in S::THREADS.iter().enumerate().take(THREADS_MAX) {
            order[t] = t as u8;
            threads[t] = Control {
                priority: spec.priority,
                status: Status::Ready,
                swept: numbers.get(t).copied().unwrap_or(0),
                ..Control::NONE
            };
        }
        Ok(Kernel {
            state: RefCell::new(State {
                store,
                specs: S::OBJECTS,
                base: time,
                stored: time,
                threads,
                count: S::THREADS.len().min(THREADS_MAX),
                order,
                current: None,
                rank: 0,
                timer: None,
            }),
            seq: Sequence {
                bits: seq_bits,
                most: tags::max_unswept::<S::Model>(seq_bits),
            },
            _s: PhantomData,
        })
    }

    /// Runs `f` in a critical section.
    pub(crate) fn section<R>(&self, f: impl FnOnce(&mut State<'m, S::Model>) -> R) -> R {
        S::Model::section(|| f(&mut self.state.borrow_mut()))
    }

    /// Starts the system: switches to the first thread. The machine calls it once, when all threads
    /// are made.
    pub fn start(&self, port: &dyn Port) {
        self.section(|s| s.reschedule(port));
    }

    /// The time of the timer has come. The machine calls it in the timer's handler.
    ///
    /// **Power loss**: the clock is stored before a thread that was due wakes. **Cost**: three
    /// stores, on 16-bit units five, if one was.
    pub fn tick(&self, port: &dyn Port) {
        self.section(|s| {
            let now = s.now(port);
            let due = |s: &Status| matches!(s, Status::Waiting { until, .. } if *until <= now);
            if s.all().iter().any(|c| due(&c.status)) {
                // A clock that is damaged stops the sleepers: each finds it again itself.
                let _ = s.reach(now);
                s.wake_if(due);
            }
            s.reschedule(port);
        });
    }

    /// Lets the next thread of the running one's priority run. The machine calls it at the end of
    /// each time slice, in a handler. Stores nothing.
    pub fn slice(&self, port: &dyn Port) {
        self.section(|s| {
            if let Some(t) = s.current {
                s.move_to_back(t);
                s.reschedule(port);
            }
        });
    }

    /// How a thread has ended; `None` if it has not.
    ///
    /// **Errors**: the one with which the thread's function returned.
    pub fn ended(&self, thread: usize) -> Option<Result<(), Error>> {
        self.section(|s| match s.all().get(thread)?.status {
            Status::Ended(r) => Some(r),
            _ => None,
        })
    }

    /// For an interrupt's handler.
    pub fn isr<'k>(&'k self, port: &'k dyn Port) -> Isr<'k, 'm, S> {
        Isr { kernel: self, port }
    }
}

/// An interrupt's handler: what it may do.
pub struct Isr<'k, 'm, S: System> {
    kernel: &'k Kernel<'m, S>,
    port: &'k dyn Port,
}

impl<S: System> Isr<'_, '_, S> {
    /// Changes a word at once, wakes who waits for its object, and picks the next thread.
    pub(crate) fn publish(
        &self,
        object: u8,
        word: u16,
        set: u8,
        f: impl FnOnce(u8) -> Option<u8>,
    ) -> Result<bool, Error> {
        let published = self.kernel.section(|s| {
            let old = s.get(word)?;
            let Some(new) = f(old) else {
                return Ok(false);
            };
            s.publish(word, new)?;
            s.keep_set(usize::MAX, word, set);
            s.wake(object);
            s.reschedule(self.port);
            Ok::<_, pmem_tx::Error>(true)
        });
        Ok(published?)
    }
}

impl<M: Model> State<'_, M> {
    /// Flags that were just set are not those that other steps have seen: they stay set when those
    /// commit.
    fn keep_set(&mut self, by: usize, word: u16, now_set: u8) {
        for t in 0..self.count {
            if t == by || planted!("nv-rtos/flag-set-again-is-lost") {
                continue;
            }
            let c = self.control(t);
            let len = usize::from(c.len);
            for o in c.operations.iter_mut().take(len) {
                if let Change::Bits { clear, .. } = &mut o.change
                    && o.word == word
                {
                    *clear &= !now_set;
                }
            }
        }
    }
}

/// A thread's seat in the kernel: the token of its steps, and the environment of its runtime.
pub struct Sys<'k, 'm, S: System> {
    pub(crate) kernel: &'k Kernel<'m, S>,
    pub(crate) port: &'k dyn Port,
    pub(crate) me: usize,
}

impl<S: System> Clone for Sys<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: System> Copy for Sys<'_, '_, S> {}

/// How a look at an object ended.
enum Look<R> {
    Found(R),
    TimedOut,
    Waits,
}

impl<'m, S: System> Sys<'_, 'm, S> {
    /// Waits until `find` finds something, at most until `until`.
    pub(crate) fn wait<R>(
        &self,
        object: u8,
        until: u64,
        mut find: impl FnMut(&mut State<'m, S::Model>) -> Result<Option<R>, pmem_tx::Error>,
    ) -> Result<Option<R>, pmem_tx::Error> {
        loop {
            let look = self.kernel.section(|s| {
                if let Some(found) = find(s)? {
                    return Ok(Look::Found(found));
                }
                if s.now(self.port) >= until {
                    return Ok(Look::TimedOut);
                }
                s.control(self.me).status = Status::Waiting { object, until };
                s.reschedule(self.port);
                Ok::<_, pmem_tx::Error>(Look::Waits)
            })?;
            match look {
                Look::Found(found) => return Ok(Some(found)),
                Look::TimedOut => return Ok(None),
                // The section's end has switched away, and this thread was woken.
                Look::Waits => {}
            }
        }
    }

    /// The time after so many ticks; never, for the largest number.
    pub(crate) fn after(&self, ticks: u64) -> u64 {
        let now = self.kernel.section(|s| s.now(self.port));
        now.saturating_add(ticks)
    }

    /// Waits until the clock shows `at`. Then this time is stored.
    pub(crate) fn sleep_until(&self, at: u64) -> Result<(), Error> {
        let port = self.port;
        self.wait(NOTHING, at, |s| {
            let now = s.now(port);
            if now < at {
                return Ok(None);
            }
            s.reach(now).map_err(damaged)?;
            Ok(Some(()))
        })?;
        Ok(())
    }

    /// The time, which is stored before anyone knows it.
    pub(crate) fn now_stored(&self) -> Result<u64, Error> {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.reach(now).map_err(|_| Error::Aborted(code::DAMAGED))?;
            Ok(now)
        })
    }

    /// The time, which the step's commit stores.
    pub(crate) fn now_in_step(&self) -> u64 {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.control(self.me).read = now;
            now
        })
    }

    /// Waits until a thread has ended.
    pub(crate) fn join(&self, thread: usize) -> Result<(), Error> {
        let ended = self.wait(AN_END, u64::MAX, |s| {
            Ok(match s.all().get(thread).map(|c| c.status) {
                Some(Status::Ended(r)) => Some(r),
                _ => None,
            })
        });
        match ended? {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::Aborted(code::FAILED)),
        }
    }

    pub(crate) fn yield_now(&self) {
        self.kernel.slice(self.port)
    }

    /// Before a call that may use a number.
    pub(crate) fn before_a_number(&self) -> Result<(), Error> {
        let seq = &self.kernel.seq;
        self.kernel.section(|s| s.before_a_number(self.me, seq))
    }

    /// Locks a mutex; or, in a replay, notes that it was.
    pub(crate) fn lock(&self, object: u8) -> Result<(), Error> {
        let live = self.kernel.section(|s| {
            let c = s.control(self.me);
            let (again, live) = (c.holds().iter().any(|h| h.object == object), c.live);
            if again {
                return Err(abort(code::LOCKED));
            }
            if live || planted!("nv-rtos/lock-taken-in-replay") {
                return Ok(true);
            }
            s.hold(self.me, object, false)?;
            Ok(false)
        })?;
        if live {
            self.wait(object, u64::MAX, |s| s.try_lock(self.me, object))?;
        }
        Ok(())
    }

    /// Gives a mutex back.
    pub(crate) fn unlock(&self, object: u8) {
        self.kernel.section(|s| {
            let c = s.control(self.me);
            let Some(at) = c.holds().iter().position(|h| h.object == object) else {
                return;
            };
            let last = usize::from(c.held) - 1;
            c.holds.swap(at, last);
            c.held = last as u8;
            // Whoever lends its priority for this mutex waits for it.
            if s.wake(object) {
                s.reschedule(self.port);
            }
        });
    }

    /// The thread has passed its records: locks what it has locked in them.
    ///
    /// If a record was made under the lock, the mutex's word named this thread then. If it names
    /// another one now, that one had the lock later, so this thread had given it back before the
    /// cut, and commits nothing more under it: then it does not lock it again. If it did, it could
    /// wait for a thread that waits for what it does next.
    fn go_live(&self) -> Result<(), pmem_tx::Error> {
        let mut next = 0;
        loop {
            let object = self.kernel.section(|s| {
                let h = *s.control(self.me).holds().get(next)?;
                Some((h, s.has_ended(self.me, h)))
            });
            let Some((Hold { object, .. }, ended)) = object else {
                break;
            };
            if !ended? || planted!("nv-rtos/ended-lock-taken-again") {
                self.wait(object, u64::MAX, |s| s.try_lock(self.me, object))?;
            }
            next += 1;
        }
        self.kernel.section(|s| {
            s.control(self.me).live = true;
            s.store_owners(self.me)?;
            // Those that waited until this thread is live.
            for object in 0..s.specs.len() as u8 {
                if s.kind(object) == Some(Kind::Mutex) {
                    s.wake(object);
                }
            }
            s.reschedule(self.port);
            Ok(())
        })
    }

    /// The thread has ended.
    pub(crate) fn end(&self, r: Result<(), Error>) {
        self.kernel.section(|s| {
            let c = s.control(self.me);
            c.status = Status::Ended(r);
            (c.len, c.held) = (0, 0);
            for object in 0..s.specs.len() as u8 {
                s.wake(object);
            }
            if !planted!("nv-rtos/end-wakes-nobody") {
                s.wake(AN_END);
            }
            s.current = None;
            s.reschedule(self.port);
            if s.current.is_none() {
                self.port.switch(None, None);
            }
        });
    }
}

impl<S: System> Outlet for Sys<'_, '_, S> {
    fn live(&mut self) {
        // An error comes again from the first call on a damaged object.
        let _ = self.go_live();
    }
}

impl<S: System> Token for Sys<'_, '_, S> {
    fn join<'c>(&self, commit: Commit<'c>) -> Result<Committed<'c>, Error> {
        self.kernel.section(|s| {
            let stamp = Stamp {
                owner: self.me as u32,
                sequence: commit.number(),
            };
            if planted!("nv-rtos/early-commit") {
                let done = commit.store();
                let staged = s.stage(self.me, stamp, &self.kernel.seq);
                s.committed(self.me, stamp, self.port);
                return staged.map(|()| done).map_err(Error::from);
            }
            if let Err(e) = s.stage(self.me, stamp, &self.kernel.seq) {
                let _ = s.store.revert(stamp);
                s.abandon(self.me, self.port);
                return Err(e.into());
            }
            #[cfg(feature = "instrument")]
            {
                s.tell(self.port);
                let priority = s.rank;
                self.port.observe(crate::port::Event::Commit { priority });
            }
            let done = commit.store();
            s.committed(self.me, stamp, self.port);
            Ok(done)
        })
    }

    fn undone(&self) {
        self.kernel.section(|s| s.abandon(self.me, self.port));
    }
}

impl<M: Model> State<'_, M> {
    /// Stages the operations of a thread's step: points 1 and 2.
    fn stage(&mut self, t: usize, stamp: Stamp, seq: &Sequence) -> Result<(), pmem_tx::Error> {
        let (read, swept) = (self.control(t).read, self.control(t).swept);
        self.reach(read).map_err(damaged)?;
        if !planted!("nv-rtos/no-sweep") {
            self.store.sweep(stamp, swept).map_err(damaged)?;
        }
        // What is staged now is in doubt, also behind numbers that were used without a join.
        self.control(t).swept = seq.before(stamp.sequence);
        let mut next = 0;
        while let Some(o) = self.operation(t, next) {
            let of_queue = |p: &&Operation| p.object == o.object && p.change == Change::Fill;
            let before = self.control(t).operations().iter().take(next);
            let behind = before.filter(of_queue).count();
            let state = self.after(&o, behind as u8)?;
            let last = last_of(&self.threads);
            let set = self.store.set(o.word, stamp, state, last);
            set.map_err(damaged)?;
            next += 1;
        }
        Ok(())
    }

    /// The thread's step is committed: point 5.
    fn committed(&mut self, t: usize, stamp: Stamp, port: &dyn Port) {
        let c = self.control(t);
        (c.swept, c.unswept) = (stamp.sequence, 0);
        let mut next = 0;
        let mut woke = false;
        while let Some(o) = self.operation(t, next) {
            if let Change::Bits { set, .. } = o.change {
                self.keep_set(t, o.word, set);
            }
            woke |= self.wake(o.object);
            next += 1;
        }
        self.control(t).len = 0;
        if woke && !planted!("nv-rtos/no-preemption-after-a-commit") {
            self.reschedule(port);
        }
    }

    /// The thread's step is undone: its claims end.
    fn abandon(&mut self, t: usize, port: &dyn Port) {
        if planted!("nv-rtos/claims-kept-after-an-abort") {
            return;
        }
        let mut next = 0;
        let mut woke = false;
        while let Some(o) = self.operation(t, next) {
            woke |= self.wake(o.object);
            next += 1;
        }
        self.control(t).len = 0;
        if woke {
            self.reschedule(port);
        }
    }
}
