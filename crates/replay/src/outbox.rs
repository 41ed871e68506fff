//! Outbox: the messages of steps, sent after their commit, at least once, with stable numbers.
//!
//! ```text
//! | head: seq, parity, count | kept | number 0 | number 1 | port, length | bytes ... | port, ...
//!
//! 1 body of step n      messages go after those that are kept, or to the start
//! 2 stage               number[1 - parity] := number of the first message; not if some are kept
//! 3 fence
//! 4 head := (n, parity, count)           counts only while n is the last committed number
//! 5 commit store of step n (table.rs)
//! 6 send each message to the outlet
//! 7 head.seq := 0                        "sent"; the next number is first + count
//! 8 fence
//!
//! cut before 5   head.seq is neither 0 nor committed: the messages are dropped, and their numbers
//!                are given to the next messages
//! cut in 6, 7    the next open sends all of them again, with the same numbers
//!
//! the outlet refuses a message in 6: it and those after it wait
//! 7 kept := count, fence, head.seq := 0  now they are pending whatever is committed later
//!
//! later all of them are sent
//!   by a step n that has sent more       kept := 0, fence, head.seq := 0
//!   otherwise                            head := (0, parity, kept) if it is not, fence, kept := 0
//! ```
//!
//! Safe because the numbers alternate between two places: the number that the committed head refers
//! to is never overwritten (planted `one-number`). A step that sends nothing still clears a head
//! with its own number (`retire_outbox`), or messages of an execution that was cut would count with
//! its commit. A receiver that remembers the last number drops repeated messages.
//!
//! Kept messages are a prefix of the messages in memory, and a head that counts includes them. So
//! `kept` may be cleared first while such a head counts; otherwise the head says first how many
//! numbers are used (planted `kept-cleared-last`). Steps that send while messages are kept append
//! to them, until the outbox is full: the step fails with `OutboxFull`, which is recorded.

use crate::access::PoolAccess;
use crate::error::{Damage, Error, OpenError};
use crate::table::{Encode, OUTBOX, Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::Arg;
use nvmem::persist::{Plain, from_bytes};
use nvmem::{Invalid, Model, Persist, planted};
use pmem_tx::Width;

/// A message to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its number: one more than that of the previous message. A repeated message has the same
    /// number, so a receiver that remembers the last number can drop it. Wraps. Each of several
    /// threads numbers its own messages: give each thread its own ports, and remember a number for
    /// each.
    pub number: u32,
    /// The number of the port.
    pub port: u8,
    /// The content; padding is zero.
    pub bytes: &'a [u8],
}

impl Message<'_> {
    /// The content, if the message was sent to this port. **Errors**: the bytes are no valid `T`.
    pub fn get<T: Plain>(&self, port: &Port<T>) -> Option<Result<T, Invalid>> {
        (self.port == port.id).then(|| from_bytes(self.bytes))
    }
}

/// A numbered destination for messages of one type.
#[derive(Debug)]
pub struct Port<T: ?Sized> {
    id: u8,
    _t: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Port<T> {
    /// The port with this number. The program must give each port another number.
    pub const fn new(id: u8) -> Self {
        Port {
            id,
            _t: PhantomData,
        }
    }
}

/// A message cannot be sent yet; or messages still wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotNow;

impl core::fmt::Display for NotNow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("messages wait until the outlet takes them")
    }
}
impl core::error::Error for NotNow {}

/// The device's connection to the outside, which sends messages. A program's
/// [environment](crate::Replay::open_with) is its outlet: `impl Outlet for Drivers {}`, if it sends
/// nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a program's environment",
    label = "the environment is also the outlet for messages",
    note = "write `impl Outlet for {Self} {{}}`; implement `send` if the program sends messages"
)]
pub trait Outlet {
    /// Sends a message of a committed step. Called again after a power cut, with the same number,
    /// until all messages were sent and the outbox is marked as sent.
    ///
    /// **Errors**: [`NotNow`] if the message cannot leave yet, for example because a radio is busy.
    /// The message and those after it stay in the outbox, through power cuts too. They are offered
    /// again, in order, after the next step or iteration and by
    /// [`Replay::drain`](crate::Replay::drain). Do not wait here.
    fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        let _ = message;
        Ok(())
    }
    /// The program has passed all records: from now on steps execute for the first time. Called
    /// once per boot.
    fn live(&mut self) {}
    /// Whether messages are dropped without being sent, so that no code to send them is needed.
    #[doc(hidden)]
    fn discards(&self) -> bool {
        false
    }
    /// Whether an open keeps the messages that it finds, and offers none: a constant, so that such
    /// an open contains no code to send them.
    #[doc(hidden)]
    #[inline(always)]
    fn keeps_all() -> bool
    where
        Self: Sized,
    {
        false
    }
    /// Whether no step of the program sends a message: a constant, so that steps contain no code
    /// for the outbox. If true, an open drops what an earlier program has left in it, and
    /// [`Step::send`](crate::Step::send) fails with [`OutboxFull`](crate::Error::OutboxFull), as it
    /// does if the table has no outbox.
    #[doc(hidden)]
    #[inline(always)]
    fn sends_nothing() -> bool
    where
        Self: Sized,
    {
        false
    }
}

/// Takes no message: each is kept.
pub(crate) struct KeepAll;
impl Outlet for KeepAll {
    fn send(&mut self, _: &Message<'_>) -> Result<(), NotNow> {
        Err(NotNow)
    }
    #[inline(always)]
    fn keeps_all() -> bool {
        true
    }
}

/// The environment of a program that was opened with [`Replay::open`](crate::Replay::open): its
/// outlet, if it has one.
pub type AnyOutlet<'m> = Option<&'m mut dyn Outlet>;

/// No drivers and no outlet: messages are dropped.
impl Outlet for () {
    fn discards(&self) -> bool {
        true
    }
}

impl<O: Outlet + ?Sized> Outlet for &mut O {
    fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        (**self).send(message)
    }
    fn live(&mut self) {
        (**self).live()
    }
    fn discards(&self) -> bool {
        (**self).discards()
    }
}

/// `None` drops the messages.
impl<O: Outlet> Outlet for Option<O> {
    fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        match self {
            Some(o) => o.send(message),
            None => Ok(()),
        }
    }
    fn live(&mut self) {
        if let Some(o) = self {
            o.live()
        }
    }
    fn discards(&self) -> bool {
        self.as_ref().is_none_or(Outlet::discards)
    }
}

/// The messages of the running step. They are written to the medium immediately, where nothing
/// counts before the commit.
pub(crate) struct Queue<M> {
    count: Cell<u32>,
    units: Cell<u32>,
    /// Stages or sends the messages; `None` if there are none. A function pointer, so a program
    /// that sends nothing links none of this code.
    action: Cell<Option<OutboxAction<M>>>,
    /// The error that prevents the commit, even if the body returns `Ok`.
    failed: Cell<Option<Error>>,
}

/// With `None` stages the messages for the commit with this number. With an outlet sends them, from
/// the message with this index on, and returns whether some must wait.
pub(crate) type OutboxAction<M> =
    fn(&Table<'_, M>, &Queue<M>, u32, Option<(&mut dyn Outlet, &mut u32)>) -> bool;

/// The messages of a [`Queue`].
pub(crate) type Messages<M> = (u32, u32, Option<OutboxAction<M>>);

/// The only [`OutboxAction`]: a pointer to it means that there is something to send.
pub(crate) fn outbox_action<M: Model>(
    table: &Table<'_, M>,
    q: &Queue<M>,
    seq: u32,
    to: Option<(&mut dyn Outlet, &mut u32)>,
) -> bool {
    match to {
        None => table.stage_messages(seq, q.count.get()),
        Some((outlet, sent)) => {
            let left = table.drain(seq, sent, &mut |m| outlet.send(m));
            // Cannot fail: these messages were written by this step, or checked at open.
            return left == Ok(true);
        }
    }
    false
}

/// Marks a [`Queue`] that takes no messages. It is never called.
fn no_action<M: Model>(
    _: &Table<'_, M>,
    _: &Queue<M>,
    _: u32,
    _: Option<(&mut dyn Outlet, &mut u32)>,
) -> bool {
    false
}

/// A decoded head word.
#[derive(Clone, Copy)]
pub(crate) struct OutboxHead {
    seq: u32,
    parity: u32,
    count: u32,
}

impl<'m, M: Model> Table<'m, M> {
    fn read_outbox_head(&self) -> OutboxHead {
        let w = self.load(OUTBOX);
        let half = Self::UNIT as u32 * 4;
        OutboxHead {
            seq: w >> half,
            parity: w >> (half - 1) & 1,
            count: w & ((1 << (half - 1)) - 1),
        }
    }
    fn write_outbox_head(&self, h: OutboxHead) {
        let half = Self::UNIT as u32 * 4;
        self.store(OUTBOX, h.seq << half | h.parity << (half - 1) | h.count);
    }
    fn number_at(&self, parity: u32) -> usize {
        OUTBOX + 2 * Self::UNIT + parity as usize * 4
    }
    fn number(&self, parity: u32) -> u32 {
        let at = self.number_at(parity);
        match Self::UNIT {
            2 => self.load(at) | self.load(at + 2) << 16,
            _ => self.load(at),
        }
    }
    fn write_number(&self, parity: u32, v: u32) {
        let at = self.number_at(parity);
        self.store(at, v);
        if Self::UNIT == 2 {
            self.store(at + 2, v >> 16);
        }
    }
    fn message_unit(&self, i: u32) -> usize {
        self.number_at(0) + 8 + i as usize * Self::UNIT
    }

    /// How many messages are kept: the outlet has refused them, and their steps are committed.
    fn kept(&self) -> u32 {
        self.load(OUTBOX + Self::UNIT)
    }
    fn write_kept(&self, count: u32) {
        self.store(OUTBOX + Self::UNIT, count)
    }

    /// The message whose first unit is `i`: port, length in bytes, units after the first. `None` if
    /// it does not lie in the outbox.
    fn message(&self, i: u32) -> Option<(u8, u32, u32)> {
        let all = self.geo.outbox_units::<M>();
        if i >= all {
            return None;
        }
        let half = Self::UNIT as u32 * 4;
        let w = self.load(self.message_unit(i));
        let len = w & ((1 << half) - 1);
        let units = len.div_ceil(Self::UNIT as u32);
        (units < all - i).then_some(((w >> half) as u8, len, units))
    }

    /// The count of kept messages and their units: the next message goes after them.
    fn kept_messages(&self) -> (u32, u32) {
        let (kept, mut i) = (self.kept(), 0);
        if planted!("nv-replay/kept-overwritten") {
            return (kept, 0);
        }
        for _ in 0..kept {
            // Cannot fail: checked at open. A full outbox takes no message.
            i = self
                .message(i)
                .map_or(self.geo.outbox_units::<M>(), |(_, _, units)| i + 1 + units);
        }
        (kept, i)
    }

    /// The kept message with this index, if there are so many.
    #[cfg(feature = "async")]
    pub(crate) fn kept_message(&self, index: u32) -> Option<Message<'_>> {
        if index >= self.kept() {
            return None;
        }
        let mut i = 0;
        for _ in 0..index {
            i += 1 + self.message(i)?.2;
        }
        let (port, len, _) = self.message(i)?;
        let mut number = self.number(self.read_outbox_head().parity);
        if !planted!("nv-replay/async-number-repeats") {
            number = number.wrapping_add(index);
        }
        Some(Message {
            number,
            port,
            bytes: self.bytes(self.message_unit(i + 1), len as usize),
        })
    }

    /// All kept messages were sent.
    #[cfg(feature = "async")]
    pub(crate) fn kept_are_sent(&self) {
        // No commit's number: kept messages stay pending after every commit.
        let none = 0;
        self.drop_messages(none)
    }

    /// Stages the messages of step `seq` for its commit: `count` with those that are kept. If the
    /// head belongs to an execution that did not commit, its numbers are used again.
    fn stage_messages(&self, seq: u32, count: u32) {
        let h = self.read_outbox_head();
        if self.kept() > 0 {
            // The number of the first kept message stays.
            return self.write_outbox_head(OutboxHead { seq, count, ..h });
        }
        let mut next = self.number(h.parity);
        if h.seq == 0 && !planted!("nv-replay/outbox-number-repeats") {
            next = next.wrapping_add(h.count);
        }
        let mut parity = 1 - h.parity;
        if planted!("nv-replay/one-number") {
            parity = h.parity;
        }
        self.write_number(parity, next);
        if !planted!("nv-replay/no-fence-before-outbox-head") {
            self.fence();
        }
        self.write_outbox_head(OutboxHead { seq, parity, count });
    }

    // INVARIANT "Outputs of the committed": an output leaves if and only if its step has committed,
    // and its number is its own. One that the outlet refuses waits, and so do those after it.
    // Noticed by: planted bugs that begin with `outbox-`, `kept-` and `refused-`; planted
    // `sent-out-of-order`, `turn-before-a-stale-head`, `record-before-a-stale-head`,
    // `start-over-drops-messages`.
    /// Sends the messages that are kept and those of the last committed step, whose number is
    /// `committed`, and marks them as sent. Leaves out the first `sent` messages, which were sent
    /// in this boot. If the outlet refuses a message, keeps it and those after it, and returns
    /// true.
    ///
    /// **Power loss**: messages may be sent again, with the same numbers. **Cost**: one store, if
    /// there are messages; one or two more if they are kept, and when kept ones are sent.
    pub(crate) fn drain(
        &self,
        committed: u32,
        sent: &mut u32,
        outlet: &mut dyn FnMut(&Message<'_>) -> Result<(), NotNow>,
    ) -> Result<bool, Damage> {
        let Some((h, count)) = self.pending(committed) else {
            return Ok(false);
        };
        if count < self.kept() && !planted!("nv-replay/kept-unchecked") {
            return Err(Damage::Outbox);
        }
        if planted!("nv-replay/outbox-marked-before-sent") {
            self.write_outbox_head(OutboxHead { seq: 0, ..h });
        }
        let first = self.number(h.parity);
        let (mut i, mut refused) = (0, None);
        // After a refusal goes on without sending: every message is checked.
        for n in 0..count {
            let (port, len, units) = self.message(i).ok_or(Damage::Outbox)?;
            let message = Message {
                number: first.wrapping_add(n),
                port,
                bytes: self.bytes(self.message_unit(i + 1), len as usize),
            };
            let waits = refused.is_some() && !planted!("nv-replay/sent-out-of-order");
            if n >= *sent && !waits && outlet(&message).is_err() {
                refused = Some(n);
            }
            i += 1 + units;
        }
        if planted!("nv-replay/refused-message-dropped") {
            refused = None;
        }
        *sent = refused.unwrap_or(0);
        if planted!("nv-replay/taken-messages-again") {
            *sent = 0;
        }
        match refused {
            Some(_) => self.keep_messages(committed, h, count),
            None => self.mark_sent(committed, h, count),
        }
        Ok(refused.is_some())
    }

    /// Sends the messages that an open finds pending, as [`Table::drain`] does, when they are
    /// durable. Drops them if the environment has no outlet. Returns the action that offers again
    /// those that wait.
    ///
    /// **Errors**: the outbox is damaged; a save has failed.
    #[inline(always)]
    pub(crate) fn send_pending<R: Persist, E: Outlet, P: PoolAccess<R, M>>(
        &self,
        access: &mut P,
        committed: u32,
        env: &mut E,
        sent: &mut u32,
    ) -> Result<Option<OutboxAction<M>>, OpenError>
    where
        M::Unit: Width,
    {
        if E::keeps_all() {
            if planted!("nv-replay/start-over-drops-messages") {
                self.drop_messages(committed);
            }
            self.keep_pending(committed);
            return Ok(None);
        }
        if E::sends_nothing() || env.discards() {
            self.drop_messages(committed);
            if E::sends_nothing() {
                self.retire_any_head();
            }
            return Ok(None);
        }
        let saved = P::OUTPUT_WAITS || planted!("nv-replay/open-sends-unsaved");
        if P::MIRRORED && !saved && self.pending(committed).is_some() {
            access.durable().map_err(|_| OpenError::Medium)?;
        }
        let waits = if P::OUTPUT_WAITS {
            self.drain(committed, sent, &mut |_| Err(NotNow))
        } else {
            self.drain(committed, sent, &mut |m| env.send(m))
        };
        let waits = waits.map_err(OpenError::Damaged)?;
        Ok(waits.then_some(outbox_action))
    }

    /// Drops the messages that are pending. **Cost** and **Power loss**: as if they were sent.
    pub(crate) fn drop_messages(&self, committed: u32) {
        if let Some((h, count)) = self.pending(committed) {
            self.mark_sent(committed, h, count)
        }
    }

    /// Keeps the messages that are pending, as if the outlet had refused them: they stay pending
    /// when later numbers commit.
    pub(crate) fn keep_pending(&self, committed: u32) {
        if let Some((h, count)) = self.pending(committed) {
            self.keep_messages(committed, h, count)
        }
    }

    /// The head, and how many messages are pending if `committed` is the last committed number. As
    /// many as are kept, or more; fewer in a damaged outbox.
    fn pending(&self, committed: u32) -> Option<(OutboxHead, u32)> {
        if self.geo.outbox_units::<M>() == 0 {
            return None;
        }
        let h = self.read_outbox_head();
        let kept = self.kept();
        let count = if h.counts(committed) { h.count } else { kept };
        (count > 0 || kept > 0).then_some((h, count))
    }

    /// All `count` pending messages are kept: they stay pending when later numbers commit.
    #[cold]
    fn keep_messages(&self, committed: u32, h: OutboxHead, count: u32) {
        if !h.counts(committed) || planted!("nv-replay/refused-message-not-kept") {
            return;
        }
        self.write_kept(count);
        if !planted!("nv-replay/no-fence-after-kept") {
            self.fence();
        }
        self.write_outbox_head(OutboxHead { seq: 0, ..h });
    }

    /// All `count` pending messages were sent.
    fn mark_sent(&self, committed: u32, h: OutboxHead, count: u32) {
        let sent = OutboxHead { seq: 0, count, ..h };
        let kept = self.kept() > 0;
        // While the head counts, it includes the kept messages, which may be forgotten first.
        let first = h.counts(committed) && !planted!("nv-replay/kept-cleared-last");
        if kept && first {
            self.write_kept(0);
            self.fence();
        }
        self.write_outbox_head(sent);
        if !planted!("nv-replay/no-fence-after-mark") {
            self.fence();
        }
        if kept && !first {
            self.write_kept(0);
            self.fence();
        }
    }

    /// If the head belongs to step `seq`, clears its number: the step did not commit, and the next
    /// message gets the number of its first one.
    ///
    /// Called before every commit without messages: a head left by an execution that was cut would
    /// count with it.
    #[inline(always)]
    pub(crate) fn retire_outbox(&self, seq: u32) {
        if self.head_belongs_to(seq) {
            self.retire_head()
        }
    }

    /// Whether the head carries this number. A table without an outbox has a run's state there,
    /// which may carry it, too.
    #[inline(always)]
    pub(crate) fn head_belongs_to(&self, seq: u32) -> bool {
        self.load(OUTBOX) >> (Self::UNIT as u32 * 4) == seq
    }

    // INVARIANT "No head of the silent": while a program runs whose environment `sends_nothing`,
    // the outbox's head carries no number, and no message is queued (`Queue::new`). The table of an
    // earlier program may have an outbox all the same, because the size on the medium counts; so
    // the open of a thread drops what waits there.
    // Noticed by: `silent_` tests in tests/suite/crash.rs (`outlets`), where every second boot
    // sends; planted `silent-program-keeps-head`, `silent-program-sends`.
    /// Clears the head's number, whichever it is: from now on no step checks the head, and one of
    /// them will commit this number. Called when no message is pending. Durable after the next
    /// fence.
    fn retire_any_head(&self) {
        if !self.head_belongs_to(0) && !planted!("nv-replay/silent-program-keeps-head") {
            self.retire_head();
        }
    }

    #[cold]
    #[inline(never)]
    fn retire_head(&self) {
        if self.geo.outbox_units::<M>() == 0 || planted!("nv-replay/outbox-keeps-uncommitted") {
            return;
        }
        // The test `outlets::buffered_32` cuts here. A new run does not clear the head again: each
        // number up to its start word was used by an empty commit, which has cleared it.
        // No fence: reclaiming in the pool ends with one, before any step runs.
        self.write_outbox_head(OutboxHead {
            seq: 0,
            count: self.kept(),
            ..self.read_outbox_head()
        });
    }
}

impl OutboxHead {
    /// Whether the messages belong to the last committed transaction, whose number this is.
    fn counts(self, committed: u32) -> bool {
        self.seq != 0 && self.seq == committed
    }
}

impl<M: Model> Queue<M> {
    /// No messages. There is room for some if a program with this environment sends any.
    #[inline(always)]
    pub(crate) fn new<E: Outlet>() -> Self {
        let closed = E::sends_nothing() && !planted!("nv-replay/silent-program-sends");
        Queue {
            // More messages than fit: each send is refused.
            count: Cell::new(if closed { u32::MAX } else { 0 }),
            units: Cell::new(0),
            action: Cell::new(if closed { Some(no_action) } else { None }),
            failed: Cell::new(None),
        }
    }

    /// Forgets the messages and the error of the last step.
    #[inline(always)]
    pub(crate) fn clear<E: Outlet>(&self) {
        self.clear_messages::<E>();
        self.failed.set(None);
    }

    /// Forgets the messages of the last step, which were offered to the outlet.
    #[inline(always)]
    pub(crate) fn clear_messages<E: Outlet>(&self) {
        if !E::sends_nothing() {
            self.action.set(None);
        }
    }

    /// An error if the step must not commit.
    #[inline(always)]
    pub(crate) fn judge(&self) -> Result<(), Error> {
        self.failed.get().map_or(Ok(()), Err)
    }

    /// The step fails with this error.
    pub(crate) fn fail(&self, e: Error) {
        self.failed.set(Some(e))
    }

    /// The step's body has returned this error.
    #[cold]
    #[inline(never)]
    pub(crate) fn body_failed(&self, e: pmem_tx::Error) {
        // An error of the outbox or of the result is noted already, and comes first.
        if self.failed.get().is_none() {
            self.fail(Error::from(e).recorded())
        }
    }

    /// The messages, for the next step.
    pub(crate) fn messages(&self) -> Messages<M> {
        (self.count.get(), self.units.get(), self.action.get())
    }

    /// Sends the messages of the last step.
    pub(crate) fn send_all(&self, (count, units, action): Messages<M>) {
        self.count.set(count);
        self.units.set(units);
        self.action.set(action);
    }

    /// Called before the step's commit, which has this number.
    #[inline]
    pub(crate) fn stage<E: Outlet>(&self, table: &Table<'_, M>, seq: u32) {
        if E::sends_nothing() {
            // The head carries no number since the open.
            return;
        }
        match self.action.get() {
            Some(action) => {
                action(table, self, seq, None);
            }
            // Drop the messages of an execution that did not commit.
            None => table.retire_outbox(seq),
        }
    }

    /// What is to be done after the step's commit.
    #[inline]
    pub(crate) fn action(&self) -> Option<OutboxAction<M>> {
        self.action.get()
    }

    pub(crate) fn send<T: Plain>(
        &self,
        table: &Table<'_, M>,
        port: &Port<T>,
        value: &T,
    ) -> Result<(), pmem_tx::Error> {
        self.put(table, port.id, size_of::<T>(), &|f| Arg::bytes(value, f))
    }

    pub(crate) fn send_bytes(
        &self,
        table: &Table<'_, M>,
        port: &Port<[u8]>,
        bytes: &[u8],
    ) -> Result<(), pmem_tx::Error> {
        self.put(table, port.id, bytes.len(), &|f| f(bytes))
    }

    fn put(
        &self,
        t: &Table<'_, M>,
        port: u8,
        len: usize,
        encode: &Encode<'_>,
    ) -> Result<(), pmem_tx::Error> {
        let unit = Table::<M>::UNIT;
        let half = unit as u32 * 4;
        if self.action.get().is_none() {
            let (kept, units) = t.kept_messages();
            self.count.set(kept);
            self.units.set(units);
        }
        let (at, most) = (self.units.get(), t.geo.outbox_units::<M>());
        let most_messages = (1 << (half - 1)) - 1;
        // Limited first, so that the sum cannot overflow.
        let units = len.min(1 << half).div_ceil(unit) as u32 + 1;
        if units > most - at || len >= 1 << half || self.count.get() >= most_messages {
            if !planted!("nv-replay/output-error-swallowed") {
                self.fail(Error::OutboxFull);
            }
            // Ends the body; the step's error is the one above.
            return Err(pmem_tx::Error::PoolFull { bytes: len });
        }
        let mut out = UnitWriter::new(t, t.message_unit(at));
        out.word(u32::from(port) << half | len as u32);
        encode(&mut |b| out.bytes(b));
        out.pad();
        self.action.set(Some(outbox_action));
        self.units.set(at + units);
        self.count.set(self.count.get() + 1);
        Ok(())
    }
}
