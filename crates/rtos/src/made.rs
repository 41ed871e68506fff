//! Objects that are made and deleted at run time, in places that the system reserves.
//!
//! ```text
//!  place               free         made         deleted      made         odd while it has an
//!  its word            0            1            2            3            object
//!
//!  REPLIES.make(step)       claims the place: the word + 1; the words of the object <- first
//!                           states, settled; with the commit   word <- (me, n, 0, 1), commit store
//!  a handle: place, 1       in a root, in a message
//!  REPLIES.at(made).send(step, m)                        the place's word is 1: as any queue
//!  REPLIES.delete(step, made)    with the commit         word <- (me, n, 1, 2); who waits is woken
//!  REPLIES.at(made).send(step, m)                        the word is not 1: `code::DELETED`
//! ```
//!
//! The word of a place is a semaphore that is only given. To make an object, or to delete it, gives
//! one. So claims, commits, aborts, cuts and boots are those of semaphores, and two steps cannot
//! have one place: each sees that the other one is about to give.
//!
//! The number in a handle is the word's state while its object exists. A later object in the same
//! place has another one, until the state comes round, after 128 objects.
//!
//! The states of an object are first ones again when the next object is made in its place. Until
//! then nobody sees them. So they may be stored at once, and a cut or an abort leaves a free place
//! with any states. A step that has used the object before it was deleted may commit later: then
//! its operations change the states of a free place. So a place counts as free only when no step
//! has operations on its object any more. The other order, where a commit refuses operations on a
//! deleted object, would need each commit to check whether its objects exist.

use crate::error::code;
use crate::events::Events;
use crate::kernel::{Isr, State, Sys, abort};
use crate::mutex::Mutex;
use crate::object::Step;
use crate::queue::Queue;
use crate::ram::{Memory, NO_SLOT, NOTHING};
use crate::semaphore::Semaphore;
use crate::system::{Kind, Layout, ObjectSpec, System};
use crate::timer::Timer;
use core::marker::PhantomData;
use nv_replay::nvmem::{Plain, planted};
use nv_replay::{Error, pmem_tx};

/// Of a word: it is that of a place.
const A_PLACE: u8 = 1;
/// Of an object's words: they lie in a place, whose word is before them.
const IN_A_PLACE: u8 = 2;

/// Reserved places of a system for objects of the type `O`: a [`Queue`], a [`Semaphore`], an
/// [`Events`], a [`Timer`] or a [`Mutex`] without data. A step makes an object in one of them, and
/// gets a handle of the type `H`; with that, [`at`](Self::at) is the object. `objects { REPLIES:
/// [Queue<u32, 4>; 3] => Reply; }` in [`system!`](crate::system!) declares such a list, and the
/// type `Reply` of its handles, which is [`Made`].
///
/// ```
/// # use nv_rtos::nvmem::{InOrder32, Persist, Region};
/// # use nv_rtos::pmem_tx::{Preempted, Section};
/// # use nv_rtos::{Error, Thread};
/// # enum Masked {}
/// # // SAFETY: this program runs one thread.
/// # unsafe impl Section for Masked {
/// #     fn with<R>(f: impl FnOnce() -> R) -> R {
/// #         f()
/// #     }
/// # }
/// # type Fram = Preempted<InOrder32, Masked>;
/// #[derive(Clone, Copy, Persist)]
/// #[repr(C)]
/// struct Job {
///     input: u32,
///     reply: Reply,
///     unused: [u8; 2], // a message has no padding
/// }
///
/// nv_rtos::system! {
///     Plan on Fram;
///     table { bytes: 64, outbox_bytes: 0, seq_bits: 12 }
///     objects {
///         REPLIES: [Queue<u32, 1>; 4] => Reply;
///     }
///     threads { boss(u32 = 0): 2; }
///     reserve { worker(u32 = 0, Job): 1; }
/// }
///
/// fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
///     let reply = th.step((), |sys, _, ()| {
///         let reply = REPLIES.make(sys)?;
///         let job = Job { input: 7, reply, unused: [0; 2] };
///         Plan::worker().spawn(sys, job)?;
///         Ok(reply)
///     })?;
///     let answer = th.step(reply, |sys, _, reply| REPLIES.at(reply).receive(sys))?;
///     assert_eq!(answer, 42);
///     th.step(reply, |sys, _, reply| REPLIES.delete(sys, reply))?;
///     th.join(Plan::worker())
/// }
///
/// fn worker(th: &mut Thread<Plan, u32>, job: Job) -> Result<(), Error> {
///     th.step(job, |sys, _, job| REPLIES.at(job.reply).send(sys, job.input * 6))?;
///     Ok(())
/// }
/// ```
///
/// A place is free again when a step that deletes its object has committed, and each step that has
/// used the object has ended.
///
/// **Cost**: a place takes a word on the medium and 16 bytes of RAM more than its object, and
/// counts as two of a system's objects.
pub struct Places<O, H> {
    /// Where the first place is, what its object is, and how many bytes of slots each has.
    at: Layout,
    spec: ObjectSpec,
    slots: u32,
    count: u8,
    _o: PhantomData<fn(H) -> O>,
}

/// Names an object that was made at run time in one of the [`Places`]. Plain data: it may be in a
/// root, in a message, in a step's result.
///
/// It names one object. When that was deleted, calls on it end with [`code::DELETED`], also if
/// there is another object in its place; after 128 more objects in the same place it names that
/// one.
///
/// [`system!`](crate::system!) makes a type for each list of places.
pub trait Made: Plain + Copy {
    #[doc(hidden)]
    fn new(place: u8, state: u8) -> Self;
    #[doc(hidden)]
    fn parts(self) -> (u8, u8);
}

/// Whether an object exists. Sealed by its hidden methods.
pub trait Exists: Copy {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn check<S: System>(&self, s: &mut State<'_, S>, me: usize) -> Result<(), pmem_tx::Error>;
    #[doc(hidden)]
    fn check_in<S: System>(&self, isr: &Isr<'_, '_, S>) -> Result<(), Error>;
    /// The state of its place's word.
    #[doc(hidden)]
    fn made(&self) -> u8 {
        0
    }
}

/// Marks an object that was made at run time: it exists until it is deleted.
#[derive(Debug, Clone, Copy)]
pub struct Alive {
    /// The object that the word of its place is.
    word: u8,
    state: u8,
}

impl Alive {
    /// The object that the word of its place is.
    pub(crate) fn word(&self) -> u8 {
        self.word
    }
}

/// Marks an object of the system's description: it always exists.
#[derive(Debug, Clone, Copy)]
pub struct Always;

impl Exists for Always {
    #[inline(always)]
    #[allow(private_interfaces)]
    fn check<S: System>(&self, _: &mut State<'_, S>, _: usize) -> Result<(), pmem_tx::Error> {
        Ok(())
    }
    #[inline(always)]
    fn check_in<S: System>(&self, _: &Isr<'_, '_, S>) -> Result<(), Error> {
        Ok(())
    }
}

impl Exists for Alive {
    #[allow(private_interfaces)]
    fn check<S: System>(&self, s: &mut State<'_, S>, me: usize) -> Result<(), pmem_tx::Error> {
        if s.exists(self.word, self.state, me) {
            Ok(())
        } else {
            Err(abort(code::DELETED))
        }
    }
    fn check_in<S: System>(&self, isr: &Isr<'_, '_, S>) -> Result<(), Error> {
        // No step is that of a handler.
        let checked = isr.kernel.section(|s| self.check(s, usize::MAX));
        Ok(checked?)
    }
    fn made(&self) -> u8 {
        self.state
    }
}

/// Each object of a system's list, and each place with its object.
#[doc(hidden)]
pub const fn each_place<const N: usize>(mut list: &[ObjectSpec]) -> [ObjectSpec; N] {
    let place = ObjectSpec {
        kind: Kind::Semaphore,
        word: 0,
        words: 1,
        initial: 0,
        content: u8::MAX as u64,
        timer: 0,
        reserved: A_PLACE,
    };
    let mut all = [place; N];
    let mut n = 0;
    while let [spec, rest @ ..] = list {
        list = rest;
        if spec.reserved == 0 {
            all[n] = *spec;
            n += 1;
            continue;
        }
        let mut i = 0;
        while i < spec.reserved as u16 {
            let word = spec.word + i * (1 + spec.words);
            all[n].word = word - 1;
            all[n + 1] = *spec;
            (all[n + 1].word, all[n + 1].reserved) = (word, IN_A_PLACE);
            if spec.timer != 0 {
                // Where its deadlines are.
                all[n + 1].content += (i as u64 * crate::timer::SLOTS as u64) << 32;
            }
            n += 2;
            i += 1;
        }
    }
    all
}

/// Whether an object lies in a place.
pub(crate) fn lies_in_a_place<S: System>(object: u8) -> bool {
    let spec = S::OBJECTS.get(usize::from(object));
    spec.is_some_and(|s| s.reserved == IN_A_PLACE)
}

/// Whether a system has places for objects.
pub(crate) const fn has_places<S: System>() -> bool {
    let mut i = 0;
    while i < S::OBJECTS.len() {
        if S::OBJECTS[i].reserved != 0 {
            return true;
        }
        i += 1;
    }
    false
}

impl<S: System> State<'_, S> {
    /// How often the step of a thread makes and deletes an object in a place.
    fn gives(&mut self, me: usize, word: u8) -> u8 {
        if me >= S::THREADS.len() {
            return 0;
        }
        let mine = self.control(me).operations().find(|o| o.object == word);
        mine.map_or(0, |o| o.plus)
    }

    // INVARIANT "A handle names one object": a call reaches an object only if the word of its place
    // has the state that it got when the object was made; the object has first states then, and no
    // operation of a step that used the one before. Also kept by `make`, `reset` and `is_used`.
    // Noticed by: planted `old-object-taken-for-the-new-one`, `object-not-new`,
    // `place-used-before-its-last-step-ends`, `object-deleted-twice`, `object-place-given-twice`,
    // `deleted-before-the-commit`.
    /// Whether the object exists that was made in a place when its word got this state. For the
    /// step that makes or deletes it, before the commit.
    fn exists(&mut self, word: u8, made: u8, me: usize) -> bool {
        let in_place = S::OBJECTS.get(usize::from(word)).map(|s| s.reserved);
        let Some(&mut o) = self.object(word) else {
            return false;
        };
        let mut state = o.state;
        if o.given != 0 {
            let mut gives = self.gives(me, word);
            if planted!("nv-rtos/deleted-before-the-commit") {
                gives = o.given;
            }
            state = state.wrapping_add(gives);
        }
        if planted!("nv-rtos/old-object-taken-for-the-new-one") {
            state = made | state & 1;
        }
        in_place == Some(A_PLACE) && state == made && !made.is_multiple_of(2)
    }

    /// The state of the word of an object's place, if it lies in one; 0 if it has no object.
    pub fn made(&mut self, object: u8) -> Option<u8> {
        let spec = S::OBJECTS.get(usize::from(object))?;
        if spec.reserved != IN_A_PLACE {
            return None;
        }
        let state = self.object(object - 1)?.state;
        Some(state * (state % 2))
    }

    /// Makes an object in a free place of those from a word on, with its first state.
    fn make(
        &mut self,
        me: usize,
        words: impl Iterator<Item = u8>,
        initial: u8,
    ) -> Result<Option<(u8, u8)>, pmem_tx::Error> {
        for (place, word) in (0..).zip(words) {
            let Some(&mut o) = self.object(word) else {
                break;
            };
            let claimed = o.given != 0 && !planted!("nv-rtos/object-place-given-twice");
            if o.state % 2 != 0 || claimed || self.is_used(word + 1) {
                continue;
            }
            self.change_place(me, word)?;
            self.reset(word + 1, initial)?;
            if planted!("nv-rtos/object-made-at-once") {
                let word = self.object(word).into_iter();
                word.for_each(|o| o.state = o.state.wrapping_add(1));
            }
            return Ok(Some((place, o.state.wrapping_add(1))));
        }
        Ok(None)
    }

    /// Whether another step is about to delete the object of a place.
    pub fn others_change_place(&mut self, me: usize, word: u8) -> bool {
        let all = self.object(word).map_or(0, |o| o.given);
        all != self.gives(me, word) && !planted!("nv-rtos/object-deleted-twice")
    }

    /// With the commit, a place gets its next state.
    pub fn change_place(&mut self, me: usize, word: u8) -> Result<(), pmem_tx::Error> {
        self.operate(me, word, |o| o.plus += 1)?;
        if let Some(o) = self.object(word) {
            o.given += 1;
        }
        Ok(())
    }

    /// Whether a step has operations on an object.
    fn is_used(&mut self, object: u8) -> bool {
        if planted!("nv-rtos/place-used-before-its-last-step-ends") {
            return false;
        }
        let mut all = self.ram.threads_mut().iter_mut();
        all.any(|c| c.operations().any(|o| o.object == object))
    }

    /// The object of a free place gets its first state.
    fn reset(&mut self, object: u8, initial: u8) -> Result<(), pmem_tx::Error> {
        if planted!("nv-rtos/object-not-new") {
            return Ok(());
        }
        let Some(spec) = S::OBJECTS.get(usize::from(object)) else {
            return Ok(());
        };
        let queue = spec.kind == Kind::Queue;
        for word in (spec.word..).take(spec.words.into()) {
            let (_, objects, slots) = self.ram.parts();
            let (o, slot) = (
                objects.get_mut(usize::from(object)),
                slots.get_mut(usize::from(word)),
            );
            let stored = match (o, slot) {
                (_, Some(s)) if queue => core::mem::replace(&mut s.state, initial),
                (Some(o), _) => core::mem::replace(&mut o.state, initial),
                _ => initial,
            };
            if stored != initial {
                let done = self.store.put_settled(word, initial);
                done.map_err(|_| abort(code::DAMAGED))?;
            }
        }
        let Some(o) = self.object(object) else {
            return Ok(());
        };
        (o.state, o.taken, o.given) = (initial, 0, 0);
        if queue {
            (o.first, o.last) = (NO_SLOT, NO_SLOT);
            o.free = u32::MAX >> (32 - spec.words % 33);
            self.may_send(object);
        }
        Ok(())
    }

    // INVARIANT "Who waits for a deleted object wakes": the commit that deletes an object makes all
    // threads ready that wait for it.
    // Noticed by: planted `who-waits-for-a-deleted-object-sleeps`.
    /// When a step that deletes an object commits, the threads that wait for the object are moved
    /// to the waiters of its place.
    pub fn gather_waiters(&mut self, me: usize) {
        for i in 0..usize::from(self.control(me).len()) {
            let object = self
                .control(me)
                .operations
                .get(i)
                .map_or(NOTHING, |o| o.object);
            let spec = S::OBJECTS.get(usize::from(object));
            let is_place = spec.is_some_and(|s| s.reserved == A_PLACE);
            if !is_place || planted!("nv-rtos/who-waits-for-a-deleted-object-sleeps") {
                continue;
            }
            let of_object = self.object(object + 1);
            let waiters = of_object.map_or(0, |o| core::mem::take(&mut o.waiters));
            if let Some(o) = self.object(object) {
                o.waiters |= waiters;
            }
        }
    }
}

impl<O, H: Made> Places<O, H> {
    /// With the object of the first place, and where that ends.
    const fn new(at: Layout, spec: ObjectSpec, end: Layout, count: u8) -> Self {
        assert!(
            count > 0 && count <= 32,
            "there are 1 to 32 places in a list"
        );
        Places {
            at,
            spec,
            slots: end.slots - at.slots,
            count,
            _o: PhantomData,
        }
    }
    /// Where the object of the first place lies.
    const fn inner(at: Layout) -> Layout {
        Layout {
            object: at.object + 1,
            word: at.word + 1,
            ..at
        }
    }
    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            reserved: self.count,
            ..self.spec
        }
    }
    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        let objects = self.at.object as u32 + 2 * self.count as u32;
        assert!(objects <= 64, "a system has at most 64 objects");
        Layout {
            object: objects as u8,
            word: self.at.word + self.count as u16 * (1 + self.spec.words),
            slots: self.at.slots + self.count as u32 * self.slots,
        }
    }
    /// How many places there are.
    pub const fn count(&self) -> usize {
        self.count as usize
    }
    /// Where the object of a place lies.
    fn layout(&self, place: u8) -> Layout {
        let place = place.min(self.count - 1);
        let inner = Self::inner(self.at);
        Layout {
            object: inner.object + 2 * place,
            word: inner.word + u16::from(place) * (1 + self.spec.words),
            slots: inner.slots + u32::from(place) * self.slots,
        }
    }
    /// Of one that names no place, nothing was ever made.
    fn alive(&self, made: H) -> Alive {
        let (place, state) = made.parts();
        if place >= self.count {
            return Alive {
                word: NOTHING,
                state: 0,
            };
        }
        Alive {
            word: self.at.object + 2 * place,
            state,
        }
    }

    fn try_make_with<S: System>(
        &self,
        sys: &Sys<'_, '_, S>,
        initial: u8,
    ) -> Result<Option<H>, pmem_tx::Error> {
        let words = (0..self.count).map(|place| self.at.object + 2 * place);
        let made = sys.kernel.section(|s| s.make(sys.me(), words, initial))?;
        Ok(made.map(|(place, state)| H::new(place, state)))
    }

    fn delete_one<S: System>(&self, sys: &Sys<'_, '_, S>, made: H) -> Result<(), pmem_tx::Error> {
        let made = self.alive(made);
        let word = made.word;
        let deleted = sys.wait(word, u64::MAX, |s| {
            made.check(s, sys.me())?;
            if s.others_change_place(sys.me(), word) {
                return Ok(None);
            }
            s.change_place(sys.me(), word).map(Some)
        });
        deleted.map(drop)
    }
}

impl<S: System, T: Plain, const N: usize, H: Made> Places<Queue<S, T, N>, H> {
    #[doc(hidden)]
    pub const fn of_queues(at: Layout, count: u8) -> Self {
        let first = Queue::<S, T, N>::at(Self::inner(at));
        Self::new(at, first.spec(), first.behind(), count)
    }

    /// Makes a queue, with the commit of the step. The step may use it before.
    ///
    /// **Power loss**: made if and only if the step has committed. **Cost**: one store for the
    /// place, and one for each slot in which a message was left; two each on 16-bit units.
    /// **Errors**: the step ends with [`code::NO_PLACE`] if no place is free; [`code::TOO_MANY`].
    pub fn make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<H, pmem_tx::Error> {
        let made = self.try_make(step)?;
        made.ok_or(abort(code::NO_PLACE))
    }

    /// Like [`make`](Self::make); `None` if no place is free. **Errors**: the others.
    pub fn try_make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<Option<H>, pmem_tx::Error> {
        self.try_make_with(step.token(), 0)
    }

    /// Deletes a queue, with the commit of the step. Threads that wait for it wake, and their steps
    /// end with [`code::DELETED`]. Its messages are lost. A step that has used it before may commit
    /// later.
    ///
    /// If another step is about to delete it, waits until that has committed, or has failed.
    ///
    /// **Power loss**: deleted if and only if the step has committed. **Cost**: one store, two on
    /// 16-bit units. **Errors**: the step ends with [`code::DELETED`] if it was deleted before;
    /// [`code::TOO_MANY`].
    pub fn delete(&self, step: &Step<'_, '_, '_, '_, S>, made: H) -> Result<(), pmem_tx::Error> {
        self.delete_one(step.token(), made)
    }

    /// The queue that was made. Its calls end with [`code::DELETED`] when it was deleted.
    pub fn at(&self, made: H) -> Queue<S, T, N, Alive> {
        Queue::at(self.layout(made.parts().0)).if_it(self.alive(made))
    }
}

impl<S: System, H: Made> Places<Semaphore<S>, H> {
    #[doc(hidden)]
    pub const fn of_semaphores(at: Layout, max: u8, count: u8) -> Self {
        let first = Semaphore::<S>::at(Self::inner(at), 0, max);
        Self::new(at, first.spec(), first.behind(), count)
    }

    /// Makes a semaphore, with the commit of the step. The step may use it before.
    ///
    /// **Power loss**: made if and only if the step has committed. **Cost**: one store for the
    /// place, and one if the last one had another number; two each on 16-bit units. **Errors**: the
    /// step ends with [`code::NO_PLACE`] if no place is free, and with [`code::FULL`] if it begins
    /// with more than its maximum; [`code::TOO_MANY`].
    pub fn make(&self, step: &Step<'_, '_, '_, '_, S>, initial: u8) -> Result<H, pmem_tx::Error> {
        let made = self.try_make(step, initial)?;
        made.ok_or(abort(code::NO_PLACE))
    }

    /// Like [`make`](Self::make); `None` if no place is free. **Errors**: the others.
    pub fn try_make(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        initial: u8,
    ) -> Result<Option<H>, pmem_tx::Error> {
        if u64::from(initial) > self.spec.content {
            return Err(abort(code::FULL));
        }
        self.try_make_with(step.token(), initial)
    }

    /// Deletes a semaphore, with the commit of the step. Threads that wait for it wake, and their
    /// steps end with [`code::DELETED`]. A step that has used it before may commit later.
    ///
    /// If another step is about to delete it, waits until that has committed, or has failed.
    ///
    /// **Power loss**: deleted if and only if the step has committed. **Cost**: one store, two on
    /// 16-bit units. **Errors**: the step ends with [`code::DELETED`] if it was deleted before;
    /// [`code::TOO_MANY`].
    pub fn delete(&self, step: &Step<'_, '_, '_, '_, S>, made: H) -> Result<(), pmem_tx::Error> {
        self.delete_one(step.token(), made)
    }

    /// The semaphore that was made. Its calls end with [`code::DELETED`] when it was deleted.
    pub fn at(&self, made: H) -> Semaphore<S, Alive> {
        Semaphore::at(self.layout(made.parts().0), 0, self.spec.content as u8)
            .if_it(self.alive(made))
    }
}

impl<S: System, H: Made> Places<Events<S>, H> {
    #[doc(hidden)]
    pub const fn of_events(at: Layout, count: u8) -> Self {
        let first = Events::<S>::at(Self::inner(at));
        Self::new(at, first.spec(), first.behind(), count)
    }

    /// Makes an event group, with the commit of the step. The step may use it before.
    ///
    /// **Power loss**: made if and only if the step has committed. **Cost**: one store for the
    /// place, and one if flags were left set; two each on 16-bit units. **Errors**: the step ends
    /// with [`code::NO_PLACE`] if no place is free; [`code::TOO_MANY`].
    pub fn make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<H, pmem_tx::Error> {
        let made = self.try_make(step)?;
        made.ok_or(abort(code::NO_PLACE))
    }

    /// Like [`make`](Self::make); `None` if no place is free. **Errors**: the others.
    pub fn try_make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<Option<H>, pmem_tx::Error> {
        self.try_make_with(step.token(), 0)
    }

    /// Deletes an event group, with the commit of the step. Threads that wait for it wake, and
    /// their steps end with [`code::DELETED`]. A step that has used it before may commit later.
    ///
    /// If another step is about to delete it, waits until that has committed, or has failed.
    ///
    /// **Power loss**: deleted if and only if the step has committed. **Cost**: one store, two on
    /// 16-bit units. **Errors**: the step ends with [`code::DELETED`] if it was deleted before;
    /// [`code::TOO_MANY`].
    pub fn delete(&self, step: &Step<'_, '_, '_, '_, S>, made: H) -> Result<(), pmem_tx::Error> {
        self.delete_one(step.token(), made)
    }

    /// The event group that was made. Its calls end with [`code::DELETED`] when it was deleted.
    pub fn at(&self, made: H) -> Events<S, Alive> {
        Events::at(self.layout(made.parts().0)).if_it(self.alive(made))
    }
}

impl<S: System, H: Made> Places<Timer<S>, H> {
    #[doc(hidden)]
    pub const fn of_one_shots(at: Layout, period: u32, count: u8) -> Self {
        let first = Timer::<S>::one_shot(Self::inner(at), period);
        Self::new(at, first.spec(), first.behind(), count)
    }
    #[doc(hidden)]
    pub const fn of_periodic_ones(at: Layout, period: u32, count: u8) -> Self {
        let first = Timer::<S>::periodic(Self::inner(at), period);
        Self::new(at, first.spec(), first.behind(), count)
    }

    /// Makes a timer that is not active, with the commit of the step. The step may use it before.
    ///
    /// **Power loss**: made if and only if the step has committed. **Cost**: one store for the
    /// place, and one if the last one was active; two each on 16-bit units. **Errors**: the step
    /// ends with [`code::NO_PLACE`] if no place is free; [`code::TOO_MANY`].
    pub fn make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<H, pmem_tx::Error> {
        let made = self.try_make(step)?;
        made.ok_or(abort(code::NO_PLACE))
    }

    /// Like [`make`](Self::make); `None` if no place is free. **Errors**: the others.
    pub fn try_make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<Option<H>, pmem_tx::Error> {
        self.try_make_with(step.token(), 0)
    }

    /// Deletes a timer, with the commit of the step. Threads that wait for it wake, and their steps
    /// end with [`code::DELETED`]. It does not expire any more. A step that has used it before may
    /// commit later.
    ///
    /// If another step is about to delete it, waits until that has committed, or has failed.
    ///
    /// **Power loss**: deleted if and only if the step has committed. **Cost**: one store, two on
    /// 16-bit units. **Errors**: the step ends with [`code::DELETED`] if it was deleted before;
    /// [`code::TOO_MANY`].
    pub fn delete(&self, step: &Step<'_, '_, '_, '_, S>, made: H) -> Result<(), pmem_tx::Error> {
        self.delete_one(step.token(), made)
    }

    /// The timer that was made. Its calls end with [`code::DELETED`] when it was deleted.
    pub fn at(&self, made: H) -> Timer<S, Alive> {
        let (at, period) = (self.layout(made.parts().0), self.spec.content as u32);
        let timer = match self.spec.timer {
            1 => Timer::one_shot(at, period),
            _ => Timer::periodic(at, period),
        };
        timer.if_it(self.alive(made))
    }
}

impl<S: System, H: Made> Places<Mutex<S>, H> {
    #[doc(hidden)]
    pub const fn of_mutexes(at: Layout, count: u8) -> Self {
        let first = Mutex::<S>::at(Self::inner(at));
        Self::new(at, first.spec(), first.behind(), count)
    }

    /// Makes a mutex, with the commit of the step. It has no data.
    ///
    /// **Power loss**: made if and only if the step has committed. **Cost**: one store for the
    /// place, and one if the last one was ever locked; two each on 16-bit units. **Errors**: the
    /// step ends with [`code::NO_PLACE`] if no place is free; [`code::TOO_MANY`].
    pub fn make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<H, pmem_tx::Error> {
        let made = self.try_make(step)?;
        made.ok_or(abort(code::NO_PLACE))
    }

    /// Like [`make`](Self::make); `None` if no place is free. **Errors**: the others.
    pub fn try_make(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<Option<H>, pmem_tx::Error> {
        self.try_make_with(step.token(), 0)
    }

    /// Deletes a mutex, with the commit of the step. Nobody gets it between the call and the
    /// commit. A call of [`lock`](crate::Thread::lock) that waits then ends with [`code::DELETED`].
    ///
    /// It is refused while a thread has the mutex, also the one that runs. If a thread had it that
    /// has not passed its records, waits until it has. If another step is about to delete it, waits
    /// until that has committed, or has failed.
    ///
    /// **Power loss**: deleted if and only if the step has committed. A replaying thread that
    /// released the mutex before the cut does not lock it again. **Cost**: one store, two on 16-bit
    /// units. **Errors**: the step ends with [`code::REFUSED`] if a thread has it, and with
    /// [`code::DELETED`] if it was deleted before; [`code::TOO_MANY`].
    pub fn delete(&self, step: &Step<'_, '_, '_, '_, S>, made: H) -> Result<(), pmem_tx::Error> {
        step.token().delete_mutex(self.alive(made))
    }

    /// The mutex that was made. [`Thread::lock`](crate::Thread::lock) ends with [`code::DELETED`]
    /// when it was deleted.
    pub fn at(&self, made: H) -> Mutex<S, (), Alive> {
        Mutex::at(self.layout(made.parts().0)).if_it(self.alive(made))
    }
}
