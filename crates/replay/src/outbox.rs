//! What a step sends to the outside: kept with its commit, drained after it, at least once, numbered.
//!
//! One head word, two counters, and the messages of one step. The head carries the number of the step; it counts while
//! that is the last one committed, and is marked by putting 0 there when all is drained.

use crate::error::{Damage, Error};
use crate::layout::OUTBOX;
use crate::table::{Encode, Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::Arg;
use nvmem::persist::{Plain, from_bytes};
use nvmem::{Invalid, Model, planted};

/// Something that a program sends to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its number: one more than that of the message before. A message that is sent again has the same number, so a receiver
    /// that remembers the last one can drop it. Wraps.
    pub number: u32,
    /// The port.
    pub port: u8,
    /// The content, padding as zeros.
    pub bytes: &'a [u8],
}

impl Message<'_> {
    /// The content, if the message was sent to this port. **Errors**: the bytes are no `T`.
    pub fn get<T: Plain>(&self, port: &Port<T>) -> Option<Result<T, Invalid>> {
        (self.port == port.id).then(|| from_bytes(self.bytes))
    }
}

/// Where messages of one type go.
#[derive(Debug)]
pub struct Port<T: ?Sized> {
    id: u8,
    _t: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Port<T> {
    /// The port of this number. The program keeps numbers apart.
    pub const fn new(id: u8) -> Self {
        Port {
            id,
            _t: PhantomData,
        }
    }
}

/// The way to the outside of the device.
pub trait Outlet {
    /// A step that is committed has sent this. Called again after a power cut, with the same number, until it has returned
    /// for all messages of the step and that is marked.
    fn send(&mut self, message: &Message<'_>) {
        let _ = message;
    }
    /// The program has passed all that is recorded: from now on things happen for the first time. Called once in each life.
    fn live(&mut self) {}
}

/// What the running step has queued. Messages are written to the medium at once, where nothing counts before the commit.
pub(crate) struct Queue<'t, M> {
    pub table: &'t Table<'t, M>,
    count: Cell<u32>,
    units: Cell<u32>,
    /// What is to be done with the messages. A function pointer: a program that sends nothing does not contain that.
    /// `None` if there are none.
    action: Cell<Option<OutboxAction<M>>>,
    /// Why the step cannot commit, even if its body has ended well; [`Error::Other`] if it can.
    pub failed: Cell<Error>,
    /// The step's number.
    pub seq: u32,
}

/// Makes the messages those of the step if it commits; or, when it has, sends them.
type OutboxAction<M> = fn(&Queue<'_, M>, Option<&mut Option<&mut dyn Outlet>>);

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

    /// Makes `count` messages those of the step `seq`, if it commits. The head of an execution that did not commit used
    /// up no numbers.
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

    /// Sends what the last step committed has queued, and marks it. `committed` is its number.
    ///
    /// **Power loss**: what was sent may be sent again, with the same numbers. **Cost**: one store, if anything was queued.
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

    /// The messages of the step `seq`, if it is that which the head tells of, need not leave any more: they have, and their
    /// numbers are `used`; or the step did not commit, and the next message has the number that the first would have had.
    ///
    /// The latter before any commit that sends nothing: a head that an uncommitted execution has left would count with it.
    #[inline(never)]
    pub(crate) fn retire_outbox(&self, seq: u32, used: bool) {
        if self.geo.outbox_units::<M>() == 0 {
            return;
        }
        let h = self.read_outbox_head();
        if h.seq == seq && (used || !planted!("nv-replay/outbox-keeps-uncommitted")) {
            let count = if used { h.count } else { 0 };
            // The pool fences when it has reclaimed, before anything follows.
            self.write_outbox_head(OutboxHead { seq: 0, count, ..h });
        }
    }
}

impl<M: Model> Queue<'_, M> {
    /// What was queued is no part of the step any more.
    #[inline]
    pub(crate) fn clear(&self) {
        self.action.set(None);
    }

    /// Before the commit of the step.
    #[inline]
    pub(crate) fn stage(&self) {
        match self.action.get() {
            Some(action) => action(self, None),
            // What an execution that did not commit has queued is dropped.
            None => self.table.retire_outbox(self.seq, false),
        }
    }

    /// After it.
    #[inline]
    pub(crate) fn drain(&self, outlet: &mut Option<&mut dyn Outlet>) {
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
        // Of a length that fits its word, the units are few.
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
                let mut send = |m: &Message<'_>| {
                    if let Some(o) = outlet {
                        o.send(m)
                    }
                };
                // The messages were written a moment ago.
                let _ = q.table.drain(q.seq, &mut send);
            }
        }));
        self.units.set(at + units);
        self.count.set(self.count.get() + 1);
        Ok(())
    }
}
