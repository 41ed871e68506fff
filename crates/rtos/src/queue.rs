//! Queues of messages, first in, first out.
//!
//! # A message from an interrupt's handler
//!
//! ```text
//!  handler, one section                     medium
//!    1 an empty slot that nobody reserved
//!    2 the message                          slot 3 <- m
//!    3 fence                                             cut here: the slot is empty
//!    4 the slot's word, settled             full 17      <- sent
//!    5 the RAM: slot 3 after the last one; waiting threads are ready
//! ```
//!
//! A settled word carries no number, so it waits for no commit, and no recovery reverts it. Its
//! ticket is the queue's next one, as that of a commit in a section of its own would be.

use crate::boot::check_state;
use crate::error::code;
use crate::kernel::{Isr, State, Sys, abort, spec};
use crate::made::{Always, Exists};
use crate::object::{Change, FOREVER, Step, Waited};
use crate::ram::{Memory, NO_SLOT, Object, Slot};
use crate::store::MESSAGE_MAX;
use crate::system::{Kind, Layout, ObjectSpec, System};
use core::marker::PhantomData;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::tagged::TagError;
use nv_replay::nvmem::{Plain, planted};
use nv_replay::{Error, pmem_tx};

/// Tickets of messages run from 0 to 127. Those in a queue lie within half of that.
pub(crate) const TICKETS: u8 = 128;

pub(crate) const FULL: u8 = 0x80;

/// A queue of the system `S` with up to `N` messages of the type `T`, first in, first out.
///
/// Messages come out in the order in which the steps that have sent them committed.
pub struct Queue<S, T, const N: usize, G = Always> {
    at: Layout,
    exists: G,
    _s: PhantomData<fn() -> (S, T)>,
}

impl<S: System, T: Plain, const N: usize> Queue<S, T, N> {
    #[doc(hidden)]
    pub const fn at(at: Layout) -> Self {
        assert!(N > 0 && N <= 32, "a queue has 1 to 32 slots");
        assert!(
            size_of::<T>() <= MESSAGE_MAX,
            "a message has at most 64 bytes"
        );
        Queue {
            at,
            exists: Always,
            _s: PhantomData,
        }
    }

    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Queue,
            word: self.at.word,
            words: N as u16,
            initial: 0,
            content: type_hash::<T>("message"),
            timer: 0,
            reserved: 0,
        }
    }

    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), (N * Self::STRIDE) as u32)
    }

    /// This queue, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Queue<S, T, N, G> {
        Queue {
            at: self.at,
            exists,
            _s: PhantomData,
        }
    }
}

impl<S: System, T: Plain, const N: usize, G: Exists> Queue<S, T, N, G> {
    /// Bytes from a slot to the next.
    const STRIDE: usize = size_of::<T>().next_multiple_of(4);

    /// Sends a message; waits until there is a slot for it.
    ///
    /// **Power loss**: sent if and only if the step has committed. A step that waits has changed
    /// nothing. **Cost**: the message and one store, two on 16-bit units. **Errors**:
    /// [`code::TOO_MANY`].
    pub fn send(&self, step: &Step<'_, '_, '_, '_, S>, message: T) -> Result<(), pmem_tx::Error> {
        self.send_until(step.token(), FOREVER, message).done()
    }

    /// Like [`send`](Self::send), for at most so many ticks. Whether it was sent.
    ///
    /// **Power loss**: the time counts anew. **Errors**: as there.
    pub fn send_timeout(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        message: T,
        ticks: u64,
    ) -> Result<bool, pmem_tx::Error> {
        let sys = step.token();
        self.send_until(sys, sys.after(ticks), message).found()
    }

    /// Like [`send`](Self::send), without waiting. Whether it was sent. **Errors**: as there.
    pub fn try_send(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        message: T,
    ) -> Result<bool, pmem_tx::Error> {
        self.send_until(step.token(), 0, message).found()
    }

    fn send_until(&self, sys: &Sys<'_, '_, S>, until: u64, message: T) -> Waited {
        Waited::new(sys.wait(self.at.object, until, |s| {
            self.exists.check(s, sys.me())?;
            let Some(slot) = s.reserve(sys.me(), self.at.object)? else {
                return Ok(None);
            };
            s.store.write_slot(self.slot(slot), &message);
            Ok(Some(()))
        }))
    }

    /// Receives the oldest message that no other step has; waits until there is one. Until the step
    /// commits, the message stays in its slot: if the step fails or the power is cut, another
    /// receive gets it. So a step that receives `N` messages, and waits for one more, waits for
    /// ever: there is no slot to send it.
    ///
    /// **Power loss**: received if and only if the step has committed. A step that waits has
    /// changed nothing. **Cost**: one store, two on 16-bit units. **Errors**: [`code::TOO_MANY`];
    /// [`code::DAMAGED`] for a message that is no `T`.
    pub fn receive(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<T, pmem_tx::Error> {
        let found = self.receive_until(step.token(), FOREVER)?;
        found.ok_or(abort(code::DAMAGED))
    }

    /// Like [`receive`](Self::receive), for at most so many ticks.
    ///
    /// **Power loss**: the time counts anew. **Errors**: as there.
    pub fn receive_timeout(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        ticks: u64,
    ) -> Result<Option<T>, pmem_tx::Error> {
        let sys = step.token();
        self.receive_until(sys, sys.after(ticks))
    }

    /// Like [`receive`](Self::receive), without waiting. **Errors**: as there.
    pub fn try_receive(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<Option<T>, pmem_tx::Error> {
        self.receive_until(step.token(), 0)
    }

    fn receive_until(&self, sys: &Sys<'_, '_, S>, until: u64) -> Result<Option<T>, pmem_tx::Error> {
        sys.wait(self.at.object, until, |s| {
            self.exists.check(s, sys.me())?;
            let Some(slot) = s.claim(sys.me(), self.at.object)? else {
                return Ok(None);
            };
            let message = s.store.read_slot(self.slot(slot));
            message.map(Some).ok_or(abort(code::DAMAGED))
        })
    }

    /// Sends a message at once, from an interrupt's handler. Returns whether there was a slot for
    /// it. It comes after all messages that committed before, and before those that commit later.
    ///
    /// **Power loss**: sent, or not. **Cost**: the message and one settled store, two on 16-bit
    /// units. Bounded: it checks each slot at most once. **Errors**: the slot's word is damaged.
    pub fn send_from_isr(&self, isr: &Isr<'_, '_, S>, message: T) -> Result<bool, Error> {
        self.exists.check_in(isr)?;
        isr.send(self.at.object, |slot| self.slot(slot), &message)
    }

    fn slot(&self, slot: u8) -> u32 {
        self.at.slots + u32::from(slot) * Self::STRIDE as u32
    }
}

impl<S: System> State<'_, S> {
    /// A slot for a message, with its number in the queue: reserved until the commit.
    #[inline]
    fn reserve(&mut self, t: usize, object: u8) -> Result<Option<u8>, pmem_tx::Error> {
        let Some(slot) = self.free_slot(object) else {
            return Ok(None);
        };
        let (sends, free) = self.object(object).map_or((0, 0), |o| (o.sends, o.free));
        self.operate_slot(t, object, slot, NO_SLOT)?;
        if let Some(o) = self.object(object) {
            o.sends = sends.wrapping_sub(1);
            if !planted!("nv-rtos/reserved-slot-given-away") {
                o.free = free & free.wrapping_sub(1);
            }
        }
        Ok(Some(slot))
    }

    /// An empty slot of a queue that nobody has reserved, if a message may be sent now.
    #[inline(always)]
    pub fn free_slot(&mut self, object: u8) -> Option<u8> {
        let o = self.object(object)?;
        if o.free == 0 {
            return None;
        }
        let slot = o.free.trailing_zeros() as u8;
        let may = o.sends != 0 || self.may_send(object);
        may.then_some(slot)
    }

    /// The slots of a queue, with their numbers.
    fn slots(&mut self, object: u8) -> impl Iterator<Item = (u8, &mut Slot)> {
        let (word, n) = spec::<S>(object).map_or((0, 0), |s| (s.word, s.words));
        let (_, _, slots) = self.ram.parts();
        let slots = slots.iter_mut().skip(word.into()).take(n.into());
        (0..).zip(slots)
    }

    /// Counts how many messages may be sent before the tickets of those in a queue lie further
    /// apart than half of a round. Whether there is one.
    #[cold]
    #[inline(never)]
    pub(crate) fn may_send(&mut self, object: u8) -> bool {
        let Some(&mut Object { free, state, .. }) = self.object(object) else {
            return false;
        };
        // The age of the oldest and the newest message, in tickets.
        let (mut oldest, mut newest) = (0, TICKETS);
        let mut reserved = 0;
        for (slot, s) in self.slots(object) {
            if s.state & FULL != 0 {
                let ago = state.wrapping_sub(s.state) % TICKETS;
                (oldest, newest) = (oldest.max(ago), newest.min(ago));
            } else {
                reserved += u8::from(free >> slot & 1 == 0);
            }
        }
        // Tickets after the newest one can be used again.
        let again = if oldest == 0 { 0 } else { newest - 1 };
        let most = (TICKETS / 2).saturating_sub(oldest - again + reserved);
        if let Some(o) = self.object(object) {
            o.state = state.wrapping_sub(again) % TICKETS;
            o.sends = most;
        }
        most > 0 || planted!("nv-rtos/tickets-lap")
    }

    /// Claims the oldest message that nobody has: the number of its slot.
    #[inline]
    fn claim(&mut self, t: usize, object: u8) -> Result<Option<u8>, pmem_tx::Error> {
        let slot = self.object(object).map_or(NO_SLOT, |o| o.first);
        if slot == NO_SLOT {
            return Ok(None);
        }
        self.operate_slot(t, object, NO_SLOT, slot)?;
        if planted!("nv-rtos/claims-ignored") {
            return Ok(Some(slot));
        }
        let (_, objects, slots) = self.ram.parts();
        if let Some(o) = objects.get_mut(usize::from(object))
            && let Some(s) = slots.get(usize::from(o.word) + usize::from(slot))
        {
            o.first = s.next;
        }
        Ok(Some(slot))
    }

    #[inline(never)]
    pub fn load_queue(&mut self, object: u8, spec: &ObjectSpec) -> Result<(), TagError> {
        // A bit for each slot, as in its RAM.
        let (mut free, mut bit) = (0, 1_u32);
        for (slot, word) in (0..).zip(spec.word..spec.word + spec.words) {
            // Most slots are empty, and most words of empty ones were never written.
            let state = match self.store.is_zero(word) {
                true => 0,
                false => self.store.get(word)?,
            };
            if state == 0 {
                free |= bit;
            } else {
                check_state(word, state & FULL != 0)?;
                let (_, objects, slots) = self.ram.parts();
                if let Some(s) = slots.get_mut(usize::from(word)) {
                    s.state = state;
                }
                if let Some(o) = objects.get_mut(usize::from(object)) {
                    put_back(o, slots, slot);
                }
            }
            bit = bit.rotate_left(1);
        }
        let (_, objects, slots) = self.ram.parts();
        let Some(o) = objects.get_mut(usize::from(object)) else {
            return Ok(());
        };
        let ticket = |slot: u8| {
            let s = slots.get(usize::from(spec.word) + usize::from(slot));
            s.map_or(0, |s| s.state % TICKETS)
        };
        o.free = free;
        // As `may_send` finds it when no slot is reserved.
        let mut oldest = 0;
        if o.last != NO_SLOT && !planted!("nv-rtos/tickets-begin-anew") {
            o.state = (ticket(o.last) + 1) % TICKETS;
            oldest = o.state.wrapping_sub(ticket(o.first)) % TICKETS;
        }
        if planted!("nv-rtos/tickets-counted-as-of-an-empty-queue") {
            oldest = 0;
        }
        o.sends = (TICKETS / 2).saturating_sub(oldest);
        Ok(())
    }
}

/// The commit of an operation that sends the message in the slot `plus`, or receives that of the
/// slot `minus`.
#[inline(always)]
pub(crate) fn commit(o: &mut Object, slots: &mut [Slot], plus: u8, minus: u8) -> Change {
    if minus == NO_SLOT {
        let (word, after) = append(o, slots, plus);
        return Change {
            word,
            before: 0,
            after,
        };
    }
    let word = usize::from(o.word) + usize::from(minus);
    let s = slots.get_mut(word);
    let before = s.map_or(0, |s| core::mem::take(&mut s.state));
    if !planted!("nv-rtos/slot-never-free-again") {
        o.free |= 1 << (minus % 32);
    }
    Change {
        word,
        before,
        after: 0,
    }
}

/// The operation's claims end: the slot `plus` is free again, or the message in the slot `minus` is
/// there again.
#[inline(always)]
pub(crate) fn give_up(o: &mut Object, slots: &mut [Slot], plus: u8, minus: u8) {
    if minus == NO_SLOT {
        o.free |= 1 << (plus % 32);
    } else {
        put_back(o, slots, minus);
    }
}

/// Returns a message to those that nobody has claimed, in the order of tickets: not to the end.
#[inline(never)]
fn put_back(o: &mut Object, slots: &mut [Slot], slot: u8) {
    let slots = slots.get_mut(usize::from(o.word)..).unwrap_or_default();
    let ticket = slots.get(usize::from(slot)).map_or(0, |s| s.state);
    let (mut before, mut behind) = (NO_SLOT, o.first);
    while let Some(s) = slots.get(usize::from(behind)) {
        let newest_first = planted!("nv-rtos/newest-first");
        if behind == NO_SLOT || is_before(ticket, s.state) ^ newest_first {
            break;
        }
        (before, behind) = (behind, s.next);
    }
    if let Some(s) = slots.get_mut(usize::from(slot)) {
        s.next = behind;
    }
    match slots.get_mut(usize::from(before)) {
        Some(s) if before != NO_SLOT => s.next = slot,
        _ => o.first = slot,
    }
    if behind == NO_SLOT {
        o.last = slot;
    }
}

/// Appends the message in `slot` to the queue. Returns the slot's word index and its new state.
#[inline(always)]
pub(crate) fn append(o: &mut Object, slots: &mut [Slot], slot: u8) -> (usize, u8) {
    let first = usize::from(o.word);
    let (word, last) = (first + usize::from(slot), first + usize::from(o.last));
    let full = FULL | o.state;
    o.state = (o.state + 1) % TICKETS;
    if let Some(s) = slots.get_mut(word) {
        (s.state, s.next) = (full, NO_SLOT);
    }
    if o.first == NO_SLOT {
        o.first = slot;
    } else if let Some(s) = slots.get_mut(last) {
        s.next = slot;
    }
    o.last = slot;
    (word, full)
}

/// Whether a ticket is older than another one in the same queue.
fn is_before(a: u8, b: u8) -> bool {
    let distance = b.wrapping_sub(a) % TICKETS;
    distance != 0 && distance < TICKETS / 2
}

impl<S: System> State<'_, S> {
    /// Appends the message of an empty slot to its queue, at once.
    ///
    /// **Errors**: the slot's word is damaged. Nothing has changed then.
    fn post(&mut self, object: u8, slot: u8) -> Result<(), pmem_tx::Error> {
        let Some(&mut o) = self.object(object) else {
            return Ok(());
        };
        let word = o.word + u16::from(slot);
        let stored = self.store.put_settled(word, FULL | o.state);
        stored.map_err(|_| abort(code::DAMAGED))?;
        let (_, objects, slots) = self.ram.parts();
        let Some(o) = objects.get_mut(usize::from(object)) else {
            return Ok(());
        };
        let ticket = o.state;
        append(o, slots, slot);
        if planted!("nv-rtos/post-keeps-the-ticket") {
            o.state = ticket;
        }
        o.sends = o.sends.wrapping_sub(1);
        if !planted!("nv-rtos/posted-slot-stays-free") {
            o.free &= o.free.wrapping_sub(1);
        }
        Ok(())
    }
}

impl<S: System> Isr<'_, '_, S> {
    // INVARIANT "A message before its word": the slot's word calls a message full after the message
    // is on the medium: after a commit's fence (`Queue::send`), or that of a handler.
    // Noticed by: planted `post-without-a-fence`.
    /// Sends a message at once, wakes the threads that wait for the queue, and picks the next
    /// thread. `at` is where the message of a slot lies. Returns whether there was a slot for it.
    pub(crate) fn send<T: Plain>(
        &self,
        object: u8,
        at: impl FnOnce(u8) -> u32,
        message: &T,
    ) -> Result<bool, Error> {
        let sent = self.kernel.section(|s| {
            let Some(slot) = s.free_slot(object) else {
                return Ok(false);
            };
            s.store.write_slot(at(slot), message);
            if !planted!("nv-rtos/post-without-a-fence") {
                s.store.fence();
            }
            s.post(object, slot)?;
            s.wake(object);
            s.reschedule(self.port);
            Ok::<_, pmem_tx::Error>(true)
        });
        Ok(sent?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of four slots, whose words follow those of another object.
    fn queue() -> (Object, [Slot; 6]) {
        let o = Object {
            word: 2,
            state: TICKETS - 1,
            free: 0b1111,
            first: NO_SLOT,
            last: NO_SLOT,
            ..Object::NEW
        };
        (o, [const { Slot { state: 0, next: 0 } }; 6])
    }

    /// The slots of the messages that nobody has claimed, the oldest first.
    fn waiting(o: &Object, slots: &[Slot]) -> [u8; 4] {
        let (mut all, mut at) = ([NO_SLOT; 4], o.first);
        for slot in &mut all {
            *slot = at;
            if at != NO_SLOT {
                at = slots[usize::from(o.word) + usize::from(at)].next;
            }
        }
        all
    }

    #[test]
    fn messages_come_in_the_order_of_commits() {
        let (mut o, mut slots) = queue();
        for slot in [2, 0, 3] {
            let change = commit(&mut o, &mut slots, slot, NO_SLOT);
            assert_eq!((change.word, change.before), (2 + usize::from(slot), 0));
        }
        assert_eq!(waiting(&o, &slots), [2, 0, 3, NO_SLOT]);
        // Tickets go on after the last one.
        assert_eq!([slots[4].state, slots[2].state], [FULL | 127, FULL]);
    }

    #[test]
    fn who_gives_up_puts_a_message_back_in_its_place() {
        let (mut o, mut slots) = queue();
        for slot in [2, 0, 3] {
            commit(&mut o, &mut slots, slot, NO_SLOT);
        }
        // Two steps claim the first and the second message, and give up in this order.
        (o.first, o.free) = (3, 0b0010);
        give_up(&mut o, &mut slots, NO_SLOT, 2);
        assert_eq!(waiting(&o, &slots), [2, 3, NO_SLOT, NO_SLOT]);
        give_up(&mut o, &mut slots, NO_SLOT, 0);
        assert_eq!(waiting(&o, &slots), [2, 0, 3, NO_SLOT]);
        // A step that sends gives up its slot.
        (o.free, o.first) = (0, 0);
        give_up(&mut o, &mut slots, 1, NO_SLOT);
        assert_eq!(o.free, 0b0010);
        // The oldest one is received.
        let change = commit(&mut o, &mut slots, NO_SLOT, 2);
        assert_eq!(
            (change.word, change.before, change.after),
            (4, FULL | 127, 0)
        );
        assert_eq!((o.free, slots[4].state), (0b0110, 0));
    }
}
