//! Bypassing: what a record says instead of a step.
//!
//! Nearly every record is that of a step that was given no handle for good and has returned a plain value. What the
//! header of such a one must be is known where the step is called, so one comparison settles everything; what differs, and
//! everything else, is looked at in full.

use crate::error::{Error, What};
use crate::execute::Shape;
use crate::header::{Head, Kind, Words};
use crate::open::Replay;
use crate::table::{Frame, Table};
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret, UNKNOWN};
use nvmem::persist::NoHandles;
use nvmem::{Model, Persist, planted};
use pmem_tx::Width;

/// What is known of a call when the program is compiled.
pub(crate) struct Known<A, O, M>(PhantomData<(A, O, M)>);
impl<A: Arg, O: Ret, M: Model> Known<A, O, M> {
    /// The length of the result is only known when it is there.
    pub const OPEN: bool = O::BYTES == UNKNOWN;
    const BYTES: usize = if Self::OPEN { 0 } else { O::BYTES };
    /// Units of content.
    pub const UNITS: u32 = (Self::BYTES.div_ceil(Table::<M>::UNIT) + A::OWNED) as u32;
    const SHORT: bool = !Self::OPEN && Table::<M>::short(Self::UNITS);
    /// The header tells everything.
    pub const SIMPLE: bool = A::OWNED == 0 && O::HANDLES == 0 && Self::SHORT;
    const KIND: Kind = if A::OWNED == 0 {
        Kind::Done
    } else {
        Kind::Took
    };

    /// The words of its record.
    #[inline(always)]
    pub const fn words(id: u32, units: u32) -> Words {
        Table::<M>::encode(Self::KIND, units, Self::SHORT, id)
    }

    pub const SHAPE: Shape = {
        let words = Self::words(0, Self::UNITS);
        let units = words.extra() + Self::UNITS as usize;
        // Of an error: on 16-bit units its description, and its number.
        let least = if Table::<M>::NARROW { 2 } else { 1 };
        Shape {
            header: words.header,
            room: Table::<M>::UNIT * (1 + if units > least { units } else { least }),
            simple: Self::SIMPLE,
        }
    };
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// The recorded result of this call, if the next record has one and all is as it must be.
    #[inline(always)]
    pub(crate) fn bypass<A: Arg, O: Ret>(&mut self, id: u32) -> Option<O> {
        let f = &self.cur;
        if !Known::<A, O, M>::SIMPLE || f.at == f.end {
            return None;
        }
        let units = Known::<A, O, M>::UNITS;
        let words = Known::<A, O, M>::words(id, units);
        if !Table::<M>::same(self.table.load(f.at), words.header)
            && !planted!("nv-replay/bypass-without-a-look")
        {
            return None;
        }
        let body = f.body;
        if let Some(second) = words.second
            && self.table.load(body) != second
        {
            return None;
        }
        let content = body + words.extra() * Table::<M>::UNIT;
        let bytes = self.table.bytes(content, Known::<A, O, M>::BYTES);
        // SAFETY: invariant "Held once": `NoHandles` refuses every handle.
        let o = unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok()?;
        self.pass(content + units as usize * Table::<M>::UNIT);
        Some(o)
    }

    /// The same for every call, and what is to be said of one that differs from its record: an error that was recorded, or
    /// a divergence.
    #[inline(never)]
    pub(crate) fn recall(&mut self, id: u32, shape: &Shape) -> Result<(), Error> {
        let Some(h) = self.next_record(id, false) else {
            return Err(Error::Diverged);
        };
        if let Kind::Failed | Kind::Aborted = h.kind {
            // One unit: there is one, or a number that nobody has written.
            let number = self.table.load(h.content);
            self.passed(h.end);
            return Err(Error::decode(h.kind, number));
        }
        if shape.simple && !cfg!(feature = "sabotage") {
            // It was the next record's result, and is no value of the type; or it was given handles.
            return Err(self.diverged(What::Result));
        }
        Ok(())
    }

    /// The record that the program has come to, of a loop or not, if this call has made it; otherwise the program has diverged.
    #[inline(never)]
    pub(crate) fn next_record(&mut self, id: u32, looped: bool) -> Option<Head> {
        let found = self.table.record(self.cur.at, self.cur.body);
        let what = match &found {
            Some(h) if (h.kind == Kind::Loop) == looped => match h.agrees::<M>(id) {
                (true, true) => return found,
                (false, _) => What::Site,
                (_, false) => What::Arguments,
            },
            _ => What::Kind,
        };
        self.diverged(what);
        None
    }

    /// The result of a call that [`Replay::bypass`] has not settled, and whose record [`Replay::recall`] has seen.
    pub(crate) fn result<A: Arg, O: Ret>(&mut self, args: &A) -> Result<O, Error> {
        if Known::<A, O, M>::SIMPLE && !cfg!(feature = "sabotage") {
            return Err(Error::Other);
        }
        let (table, f) = (&self.table, &self.cur);
        let Some(h) = table.record(f.at, f.body) else {
            return Err(Error::Other);
        };
        let content = table.content(&h);
        let mut recorded = 0;
        if h.kind == Kind::Took {
            recorded = table.owned(content).count();
        }
        let mut same = recorded == A::OWNED;
        if A::OWNED > 0 {
            let mut taken = table.owned(content);
            args.owned(&mut |given| same &= taken.next() == Some(given));
        }
        if !same && !planted!("nv-replay/handles-not-compared") {
            return Err(self.diverged(What::Handles));
        }
        let content = content
            .get(recorded * Table::<M>::UNIT..)
            .unwrap_or_default();
        let bytes = if Known::<A, O, M>::OPEN {
            Some(content)
        } else if content.len() == O::BYTES.next_multiple_of(Table::<M>::UNIT) {
            content.get(..O::BYTES)
        } else {
            None
        };
        let o = bytes.and_then(|bytes| {
            if O::HANDLES == 0 {
                // SAFETY: invariant "Held once": `NoHandles` refuses every handle.
                return unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok();
            }
            let later = Frame {
                at: f.at - Table::<M>::UNIT,
                body: h.end,
                ..*f
            };
            self.pool
                .adopt_but::<O>(bytes, &mut |o| table.given_away(&later, o))
                .ok()
        });
        match o {
            Some(o) => {
                self.passed(h.end);
                Ok(o)
            }
            None => Err(self.diverged(What::Result)),
        }
    }

    /// [`Replay::pass`], out of line.
    #[inline(never)]
    pub(crate) fn passed(&mut self, body: usize) {
        self.pass(body)
    }

    /// The program is behind another record, whose payload ends at `body`.
    #[inline(always)]
    pub(crate) fn pass(&mut self, body: usize) {
        let f = &mut self.cur;
        f.at -= Table::<M>::UNIT;
        f.body = body;
        if f.at == f.end || planted!("nv-replay/live-one-record-early") {
            self.check_live();
        }
    }
}

impl<M: Model> Table<'_, M> {
    /// The bytes of a record's content.
    fn content(&self, h: &Head) -> &[u8] {
        self.bytes(h.content, h.end - h.content)
    }

    /// Whether a handle was given away by one of the records that are still to come: it leads to what others own now.
    fn given_away(&self, f: &Frame, handle: u32) -> bool {
        let (mut at, mut body) = (f.at, f.body);
        while at != f.end {
            let Some(h) = self.record(at, body) else {
                break;
            };
            if h.kind == Kind::Took && self.owned(self.content(&h)).any(|given| given == handle) {
                return true;
            }
            at -= Self::UNIT;
            body = h.end;
        }
        false
    }
}
