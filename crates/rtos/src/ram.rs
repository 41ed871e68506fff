//! The kernel's RAM: the committed state of each object, the claims on it, the threads that wait
//! for it, and the threads.
//!
//! All of it is made at each boot, from the words on the medium and from the replay of the threads.
//! While threads run, nobody reads an object's word: its state here is the one that counts.

use crate::system::{Kind, ObjectSpec};
use crate::{LOCKS_MAX, OPERATIONS_MAX};
use nv_replay::Error;
use nv_replay::nvmem::planted;

/// Of a thread's state: it was aborted.
pub const ABORTED: u8 = 0xff;
/// Of a reserved place's state: its last thread has ended with an error. 0: without one.
pub const FAILED: u8 = 0xfe;
/// The lowest bit of what stands for a thread's word in an operation, in `plus` the new state.
pub const A_THREAD: u8 = 0x80;
/// No object: the thread waits for time only.
pub const NOTHING: u8 = 0xff;
/// The object of a thread that waits for the end of another one.
pub const AN_END: u8 = 0xfe;
/// The object of a free place: it waits until a step spawns its next thread.
pub const A_BEGIN: u8 = 0xfd;
/// The object of a thread that waits until a handler wakes it.
pub const A_WAKE: u8 = 0xfc;
/// After the last message of a queue.
pub const NO_SLOT: u8 = 0xff;

/// What a step does to an object when it commits.
///
/// | object | `plus` | `minus` |
/// |---|---|---|
/// | semaphore | how many it gives | how many it takes |
/// | event group | the flags that it sets | the flags that it clears; one in both is set |
/// | queue, a message is sent | its slot | [`NO_SLOT`] |
/// | queue, one is received | [`NO_SLOT`] | its slot |
/// | [`A_THREAD`] and its number | its new state | 1 if it is spawned |
#[derive(Debug, Clone, Copy)]
// One load and one store. Not on MSP430, where LLVM does not align the stack so.
#[cfg_attr(not(target_arch = "msp430"), repr(align(4)))]
pub struct Operation {
    /// The object.
    pub object: u8,
    pub plus: u8,
    pub minus: u8,
    #[cfg(not(target_arch = "msp430"))]
    #[expect(dead_code, reason = "so that no byte of the word is padding")]
    unused: u8,
}

impl Operation {
    #[inline(always)]
    pub const fn new(object: u8, plus: u8, minus: u8) -> Self {
        Operation {
            object,
            plus,
            minus,
            #[cfg(not(target_arch = "msp430"))]
            unused: 0,
        }
    }
}

/// A semaphore, a queue, a mutex or an event group. Its `state` is the committed one.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    pub kind: Kind,
    /// A bit for each thread that waits for it.
    pub waiters: u8,
    /// How many a semaphore has; the flags of a group; the owner of a mutex, from 1, or 0; the next
    /// ticket of a queue.
    pub state: u8,
    /// What open steps take of it: how many, which flags. Of a mutex: the thread that has it, from
    /// 1.
    pub taken: u8,
    /// How many open steps give.
    pub given: u8,
    /// A queue's slots of the oldest and the newest message that nobody has claimed.
    pub first: u8,
    pub last: u8,
    /// How many messages may be sent to a queue before `may_send` checks the age of its oldest one.
    pub sends: u8,
    /// Its first word.
    pub word: u16,
    /// A queue's empty slots that nobody has reserved.
    pub free: u32,
    #[cfg(target_arch = "msp430")]
    #[expect(dead_code, reason = "see the sizes below")]
    unused: [u8; 2],
}

/// A word, if it is that of a queue's slot.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// Its committed state: empty, or full with a ticket.
    pub state: u8,
    /// The slot of the next message, if no step has claimed this one.
    pub next: u8,
}

/// Of what a step has done: it has read the time.
pub const READS: u16 = 0x100;

/// A thread, as the kernel sees it.
#[derive(Clone, Copy)]
pub struct Control {
    /// The threads of the level that has this thread's number, where priorities change. A bit for
    /// each.
    pub level: u8,
    /// It has passed its records.
    pub live: bool,
    /// What the running step has done so far: how many operations, and [`READS`]. One comparison
    /// finds a step that has done nothing.
    pub done: u16,
    /// How many locks it has, of one mutex maybe several; in a replay it has come to them, and
    /// locks them when it is live.
    pub held: u8,
    /// A bit for each of them: a call was made under it, so a record was, or will be.
    pub used: u8,
    /// The object for which it waits, or waited last if it is ready.
    pub waits_for: u8,
    /// Their objects.
    pub holds: [u8; LOCKS_MAX],
    pub operations: [Operation; OPERATIONS_MAX],
    /// So many numbers it may use before a part of its words is settled, from `unsettled` on.
    pub numbers: u16,
    pub unsettled: u16,
    /// When it stops to wait.
    pub until: u64,
    /// How it has ended.
    pub ended: Option<Result<(), Error>>,
    #[cfg(target_arch = "msp430")]
    #[expect(dead_code, reason = "see the sizes below")]
    unused: [u8; 12],
}

// An MSP430 calls a multiplication for the address of an element, unless its size is a power of 2.
#[cfg(target_arch = "msp430")]
const _: () = assert!(size_of::<Object>() == 16 && size_of::<Control>() == 64);

impl Object {
    /// Before it is known: all bytes are zeros.
    pub const NEW: Self = Object {
        kind: Kind::Semaphore,
        waiters: 0,
        state: 0,
        taken: 0,
        given: 0,
        first: 0,
        last: 0,
        sends: 0,
        word: 0,
        free: 0,
        #[cfg(target_arch = "msp430")]
        unused: [0; 2],
    };

    /// What the system says of it.
    pub fn begin(&mut self, spec: &ObjectSpec) {
        (self.kind, self.word) = (spec.kind, spec.word);
        (self.first, self.last) = (NO_SLOT, NO_SLOT);
    }
}

impl Control {
    /// The thread has not ended, and waits for nothing.
    pub fn begin(&mut self) {
        (self.ended, self.waits_for) = (None, NOTHING);
    }

    /// How many operations the running step has.
    #[inline(always)]
    pub fn len(&self) -> u8 {
        self.done as u8
    }
    /// Whether the running step has read the time.
    #[inline(always)]
    pub fn reads(&self) -> bool {
        self.done >= READS
    }

    /// The operations of the running step.
    pub fn operations(&mut self) -> impl Iterator<Item = &mut Operation> {
        let len = self.len();
        self.operations.iter_mut().take(len.into())
    }
    /// The operation on an object: the one that the step has, or a new one, if there is room.
    #[cold]
    #[inline(never)]
    pub fn find(&mut self, object: u8) -> Option<&mut Operation> {
        let len = self.len().into();
        let mut at = self.operations().position(|o| o.object == object);
        if planted!("nv-rtos/operations-not-merged") {
            at = None;
        }
        let o = self.operations.get_mut(at.unwrap_or(len))?;
        if at.is_none() {
            *o = Operation::new(object, 0, 0);
            self.done += 1;
        }
        Some(o)
    }
    /// Removes the operation on an object, if the step has one. The others keep their order.
    pub fn forget(&mut self, object: u8) {
        let len = usize::from(self.len());
        let at = self.operations().position(|o| o.object == object);
        if let Some(at) = at {
            self.operations.copy_within(at + 1..len, at);
            self.done -= 1;
        }
    }
    pub fn holds(&self) -> &[u8] {
        self.holds.get(..self.held.into()).unwrap_or(&[])
    }
    /// The first lock of a mutex.
    #[inline(never)]
    pub fn hold(&self, object: u8) -> Option<usize> {
        self.holds().iter().position(|h| *h == object)
    }
    /// Moves a mutex to the end of the list; if it was locked several times, its last lock.
    #[cold]
    #[inline(never)]
    pub fn make_last(&mut self, object: u8) {
        while let Some(at) = self.holds().iter().rposition(|h| *h == object)
            && at + 1 < usize::from(self.held)
        {
            self.holds.swap(at, at + 1);
            let (one, next) = (self.used >> at & 1, self.used >> (at + 1) & 1);
            self.used &= !(3 << at);
            self.used |= next << at | one << (at + 1);
        }
    }
}

/// Exactly what a system with `T` threads, `O` objects and `W` words needs.
pub struct Ram<const T: usize, const O: usize, const W: usize> {
    threads: [Control; T],
    objects: [Object; O],
    slots: [Slot; W],
    marks: [Mark; T],
}

/// The facts about a thread that its words hold. Not in [`Control`], where a byte takes eight.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// 0 for the priority of the system, or another one and 1, or [`ABORTED`]. Of a reserved place:
    /// 0 without a thread, or [`FAILED`], or its priority and 1, or [`ABORTED`].
    pub state: u8,
    /// The end of its last number at the boot.
    pub number: u8,
}

/// The parts of a [`Ram`]. Their lengths are constants of the system.
pub trait Memory {
    /// Its content before the objects and threads are known. All bytes are zeros, so that a program
    /// has no copy of it among its constants: `Control::begin` and `Object::begin` make the rest.
    const NEW: Self;
    /// The threads.
    fn threads(&self) -> &[Control];
    /// The threads.
    fn threads_mut(&mut self) -> &mut [Control];
    /// The objects.
    fn objects(&self) -> &[Object];
    /// The objects.
    fn objects_mut(&mut self) -> &mut [Object];
    /// What is known of the threads from their words.
    fn marks(&self) -> &[Mark];
    /// What is known of the threads from their words.
    fn marks_mut(&mut self) -> &mut [Mark];
    /// The threads, the objects, and the slots of queues by their words.
    fn parts(&mut self) -> (&mut [Control], &mut [Object], &mut [Slot]);
}

impl<const T: usize, const O: usize, const W: usize> Memory for Ram<T, O, W> {
    const NEW: Self = Ram {
        threads: [Control {
            level: 0,
            live: false,
            done: 0,
            held: 0,
            waits_for: 0,
            used: 0,
            holds: [0; LOCKS_MAX],
            operations: [Operation::new(0, 0, 0); OPERATIONS_MAX],
            numbers: 0,
            unsettled: 0,
            until: 0,
            ended: Some(Err(Error::Aborted(0))),
            #[cfg(target_arch = "msp430")]
            unused: [0; 12],
        }; T],
        objects: [Object::NEW; O],
        slots: [Slot { state: 0, next: 0 }; W],
        marks: [Mark {
            state: 0,
            number: 0,
        }; T],
    };
    #[inline(always)]
    fn threads(&self) -> &[Control] {
        &self.threads
    }
    #[inline(always)]
    fn threads_mut(&mut self) -> &mut [Control] {
        &mut self.threads
    }
    #[inline(always)]
    fn objects(&self) -> &[Object] {
        &self.objects
    }
    #[inline(always)]
    fn objects_mut(&mut self) -> &mut [Object] {
        &mut self.objects
    }
    fn marks(&self) -> &[Mark] {
        &self.marks
    }
    fn marks_mut(&mut self) -> &mut [Mark] {
        &mut self.marks
    }
    #[inline(always)]
    fn parts(&mut self) -> (&mut [Control], &mut [Object], &mut [Slot]) {
        (&mut self.threads, &mut self.objects, &mut self.slots)
    }
}
