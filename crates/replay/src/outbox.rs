//! Outbox: the messages of one step, sent after its commit, at least once, with stable numbers.
//!
//! ```text
//! | head: seq, parity, count | number 0 | number 1 | port, length | bytes ... | port, length | ...
//!
//! 1 body of step n      messages go behind the numbers; the old head is marked as sent
//! 2 stage               number[1 - parity] := number of the first message
//! 3 fence
//! 4 head := (n, 1 - parity, count)       counts only while n is the last committed number
//! 5 commit store of step n (table.rs)
//! 6 send each message to the outlet
//! 7 head.seq := 0                        "sent"; the next number is first + count
//! 8 fence
//!
//! cut before 5   head.seq is neither 0 nor committed: the messages are dropped, and their numbers
//!                are given to the next messages
//! cut in 6, 7    the next open sends all of them again, with the same numbers
//! ```
//!
//! Safe because the numbers alternate between two places: the number that the committed head refers
//! to is never overwritten (planted `one-number`). A step that sends nothing still clears a head
//! with its own number (`retire_outbox`), or messages of an execution that was cut would count with
//! its commit. A receiver that remembers the last number drops repeated messages.

use crate::error::{Damage, Error};
use crate::table::{Encode, OUTBOX, Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::Arg;
use nvmem::persist::{Plain, from_bytes};
use nvmem::{Invalid, Model, planted};

/// A message to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its number: one more than that of the previous message. A repeated message has the same
    /// number, so a receiver that remembers the last number can drop it. Wraps.
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
    /// until all messages of the step were sent and the outbox is marked as sent.
    fn send(&mut self, message: &Message<'_>) {
        let _ = message;
    }
    /// The program has passed all records: from now on steps execute for the first time. Called
    /// once per boot.
    fn live(&mut self) {}
    /// Whether messages are dropped without being sent, so that no code to send them is needed.
    #[doc(hidden)]
    fn discards(&self) -> bool {
        false
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
    fn send(&mut self, message: &Message<'_>) {
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
    fn send(&mut self, message: &Message<'_>) {
        match self {
            Some(o) => o.send(message),
            None => {}
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
pub(crate) struct Queue<'t, M> {
    pub table: &'t Table<'t, M>,
    count: Cell<u32>,
    units: Cell<u32>,
    /// Stages or sends the messages; `None` if there are none. A function pointer, so a program
    /// that sends nothing links none of this code.
    action: Cell<Option<OutboxAction<M>>>,
    /// The error that prevents the commit even if the body returns `Ok`; [`Error::Other`] for none.
    pub failed: Cell<Error>,
    /// The step's sequence number.
    pub seq: u32,
}

/// With `None` stages the messages for the commit; with an outlet sends them.
type OutboxAction<M> = fn(&Queue<'_, M>, Option<&mut dyn Outlet>);

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
        OUTBOX + Self::UNIT + parity as usize * 4
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

    pub(crate) fn queue(&self, seq: u32) -> Queue<'_, M> {
        Queue {
            table: self,
            count: Cell::new(0),
            units: Cell::new(0),
            action: Cell::new(None),
            failed: Cell::new(Error::Other),
            seq,
        }
    }

    /// Stages `count` messages for the commit of step `seq`. If the head belongs to an execution
    /// that did not commit, its numbers are used again.
    fn stage_messages(&self, seq: u32, count: u32) {
        let h = self.read_outbox_head();
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

    /// Sends the messages of the last committed step, whose number is `committed`, and marks them
    /// as sent.
    ///
    /// **Power loss**: messages may be sent again, with the same numbers. **Cost**: one store, if
    /// there are messages.
    pub(crate) fn drain(
        &self,
        committed: u32,
        outlet: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), Damage> {
        if self.geo.outbox_units::<M>() == 0 {
            return Ok(());
        }
        let h = self.read_outbox_head();
        if h.seq == 0 || h.seq != committed {
            return Ok(());
        }
        if planted!("nv-replay/outbox-marked-before-sent") {
            self.write_outbox_head(OutboxHead { seq: 0, ..h });
        }
        let first = self.number(h.parity);
        let mut i = 0;
        for n in 0..h.count {
            if i >= self.geo.outbox_units::<M>() {
                return Err(Damage::Outbox);
            }
            let half = Self::UNIT as u32 * 4;
            let w = self.load(self.message_unit(i));
            let len = w & ((1 << half) - 1);
            let units = len.div_ceil(Self::UNIT as u32);
            if units > self.geo.outbox_units::<M>() - i - 1 {
                return Err(Damage::Outbox);
            }
            outlet(&Message {
                number: first.wrapping_add(n),
                port: (w >> half) as u8,
                bytes: self.bytes(self.message_unit(i + 1), len as usize),
            });
            i += 1 + units;
        }
        self.write_outbox_head(OutboxHead { seq: 0, ..h });
        if !planted!("nv-replay/no-fence-after-mark") {
            self.fence();
        }
        Ok(())
    }

    /// If the head belongs to step `seq`, clears its number. With `used` the messages count as sent
    /// and their numbers as used. Otherwise the step did not commit, and the next message gets the
    /// number of its first one.
    ///
    /// Called with `used == false` before every commit without messages: a head left by an
    /// execution that was cut would count with it.
    #[inline(never)]
    pub(crate) fn retire_outbox(&self, seq: u32, used: bool) {
        if self.geo.outbox_units::<M>() == 0 {
            return;
        }
        let h = self.read_outbox_head();
        if h.seq == seq && (used || !planted!("nv-replay/outbox-keeps-uncommitted")) {
            let count = if used { h.count } else { 0 };
            // No fence: reclaiming in the pool ends with one, before any step runs.
            self.write_outbox_head(OutboxHead { seq: 0, count, ..h });
        }
    }
}

impl<M: Model> Queue<'_, M> {
    /// Drops the messages: the step has failed.
    #[inline]
    pub(crate) fn clear(&self) {
        self.action.set(None);
    }

    /// Called before the step's commit.
    #[inline]
    pub(crate) fn stage(&self) {
        match self.action.get() {
            Some(action) => action(self, None),
            // Drop the messages of an execution that did not commit.
            None => self.table.retire_outbox(self.seq, false),
        }
    }

    /// Called after the step's commit.
    #[inline]
    pub(crate) fn drain(&self, outlet: &mut dyn Outlet) {
        if let Some(action) = self.action.get() {
            action(self, Some(outlet))
        }
    }

    pub(crate) fn send<T: Plain>(&self, port: &Port<T>, value: &T) -> Result<(), Error> {
        self.put(port.id, size_of::<T>(), &|f| Arg::bytes(value, f))
    }

    pub(crate) fn send_bytes(&self, port: &Port<[u8]>, bytes: &[u8]) -> Result<(), Error> {
        self.put(port.id, bytes.len(), &|f| f(bytes))
    }

    fn put(&self, port: u8, len: usize, encode: &Encode<'_>) -> Result<(), Error> {
        let t = self.table;
        let unit = Table::<M>::UNIT;
        let half = unit as u32 * 4;
        let (at, most) = (self.units.get(), t.geo.outbox_units::<M>());
        let most_messages = (1 << (half - 1)) - 1;
        // Limited first, so that the sum cannot overflow.
        let units = len.min(1 << half).div_ceil(unit) as u32 + 1;
        if units > most - at || len >= 1 << half || self.count.get() >= most_messages {
            self.failed.set(Error::OutboxFull);
            return Err(Error::OutboxFull);
        }
        let mut out = UnitWriter::new(t, t.message_unit(at), 0);
        out.word(u32::from(port) << half | len as u32);
        encode(&mut |b| out.bytes(b));
        out.pad();
        self.action.set(Some(|q, outlet| match outlet {
            None => q.table.stage_messages(q.seq, q.count.get()),
            Some(outlet) => {
                // Cannot fail: these messages were written in this step.
                let _ = q.table.drain(q.seq, &mut |m| outlet.send(m));
            }
        }));
        self.units.set(at + units);
        self.count.set(self.count.get() + 1);
        Ok(())
    }
}
