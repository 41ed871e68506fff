//! Bypassing: what a record says instead of a step.
//!
//! Nearly every record is that of a step that was given no handle for good and has returned a plain value. What the
//! header of such a one must be is known where the step is called, so one comparison settles everything; what differs, and
//! everything else, is looked at in full.

use crate::error::{Error, What};
use crate::header::{Check, Head, Kind};
use crate::open::Replay;
use crate::table::{Frame, Table};
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::persist::NoHandles;
use nvmem::{Model, Persist, planted};
use pmem_tx::Width;

/// The result in a record.
pub(crate) struct Recalled {
    /// Where its bytes lie.
    at: usize,
    len: usize,
    /// Bytes of the record's payload.
    pub total: usize,
}

/// What is known of a call when the program is compiled.
struct Known<A, O, M>(PhantomData<(A, O, M)>);
impl<A: Arg, O: Ret, M: Model> Known<A, O, M> {
    const UNITS: u32 = O::BYTES.div_ceil(Table::<M>::UNIT) as u32;
    /// The header tells everything. A type of unknown length (which says 0) is at least not taken for another: the record
    /// of what has none is compared whole.
    const SIMPLE: bool = A::OWNED == 0
        && O::HANDLES == 0
        && Table::<M>::short(Self::UNITS)
        && (O::BYTES > 0 || size_of::<O>() == 0);
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// The recorded result of this call, if the next record has one and all is as it must be.
    #[inline(always)]
    pub(crate) fn bypass<A: Arg, O: Ret>(&mut self, check: Check) -> Option<O> {
        let f = &self.cur;
        if !Known::<A, O, M>::SIMPLE || f.at == f.end {
            return None;
        }
        let units = Known::<A, O, M>::UNITS;
        let words = Table::<M>::encode(0, Kind::Done, units, check);
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
        let extra = words.extra() as usize * Table::<M>::UNIT;
        let bytes = self.table.bytes(body + extra, O::BYTES);
        // SAFETY: `NoHandles` refuses every handle.
        let o = unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok()?;
        self.pass(extra + units as usize * Table::<M>::UNIT);
        Some(o)
    }

    /// The same for every call, and what is to be said of one that differs from its record: an error that was recorded, or
    /// a divergence.
    #[inline(never)]
    pub(crate) fn recall(
        &mut self,
        check: Check,
        given: &[u32],
        bytes: usize,
    ) -> Result<Recalled, Error> {
        let head = self.next_record(check, false)?;
        let (unit, t, body) = (Table::<M>::UNIT, &self.table, self.cur.body);
        let total = head.total() as usize * unit;
        let content = t.content(body, &head);
        if head.kind == Kind::Failed {
            let e = t.failure(body, &head);
            self.pass(total);
            return Err(e);
        }
        let mut recorded = 0;
        if head.kind == Kind::Took {
            recorded = t.owned(content).count();
        }
        let same = match recorded {
            0 => given.is_empty(),
            _ => t.owned(content).eq(given.iter().copied()),
        };
        let len = content.len() - recorded * unit;
        if !same && !planted!("nv-replay/handles-not-compared") {
            Err(self.diverged(What::Handles))
        } else if bytes > 0 && len != bytes.next_multiple_of(unit) {
            Err(self.diverged(What::Result))
        } else {
            Ok(Recalled {
                at: body + (head.extra as usize + recorded) * unit,
                len: if bytes > 0 { bytes } else { len },
                total,
            })
        }
    }

    /// The record that the program has come to, of a loop or not, if this call has made it. **Errors**: the divergence.
    #[inline(never)]
    pub(crate) fn next_record(&mut self, check: Check, looped: bool) -> Result<Head, Error> {
        let f = &self.cur;
        let what = match self.table.record(f.at, f.body, f.body_end) {
            None => What::Kind,
            Some(h) if matches!(h.kind, Kind::LoopOpen | Kind::LoopDone) != looped => What::Kind,
            Some(h) => match Table::<M>::agrees(&h, check) {
                (true, true) => return Ok(h),
                (false, _) => What::Site,
                (_, false) => What::Arguments,
            },
        };
        Err(self.diverged(what))
    }

    /// The result of a call that [`Replay::bypass`] has not settled.
    pub(crate) fn result<A: Arg, O: Ret>(&mut self, r: &Recalled) -> Result<O, Error> {
        let o = if Known::<A, O, M>::SIMPLE && !cfg!(feature = "sabotage") {
            // It was the next record's result, and is no value of the type.
            None
        } else if O::HANDLES == 0 {
            let bytes = self.table.bytes(r.at, r.len);
            // SAFETY: `NoHandles` refuses every handle.
            unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok()
        } else {
            let (table, f) = (&self.table, &self.cur);
            let later = Frame {
                at: f.at + Table::<M>::UNIT,
                body: f.body + r.total,
                ..*f
            };
            let bytes = table.bytes(r.at, r.len);
            self.pool
                .adopt_but::<O>(bytes, &mut |o| table.given_away(&later, o))
                .ok()
        };
        let Some(o) = o else {
            return Err(self.diverged(What::Result));
        };
        self.pass(r.total);
        Ok(o)
    }

    /// The program is behind another record.
    #[inline(always)]
    pub(crate) fn pass(&mut self, total: usize) {
        let f = &mut self.cur;
        f.at += Table::<M>::UNIT;
        f.body += total;
        if f.at == f.end || planted!("nv-replay/live-one-record-early") {
            self.check_live();
        }
    }
}

impl<M: Model> Table<'_, M> {
    /// The error in a record whose payload is at `body`.
    fn failure(&self, body: usize, h: &Head) -> Error {
        let word = |i: usize| {
            let mut v = 0;
            for i in (i..i + 4).step_by(Self::UNIT) {
                if i < h.units as usize * Self::UNIT {
                    let at = body + h.extra as usize * Self::UNIT + i;
                    v |= self.load(at) << (i % 4 * 8);
                }
            }
            v
        };
        Error::decode(
            word(0),
            (h.units as usize * Self::UNIT > 4).then(|| word(4)),
        )
    }

    /// Whether a handle was given away by one of the records that are still to come: it leads to what others own now.
    fn given_away(&self, f: &Frame, handle: u32) -> bool {
        let (mut at, mut body) = (f.at, f.body);
        while at != f.end {
            let Some(h) = self.record(at, body, f.body_end) else {
                break;
            };
            if h.kind == Kind::Took
                && self
                    .owned(self.content(body, &h))
                    .any(|given| given == handle)
            {
                return true;
            }
            at += Self::UNIT;
            body += h.total() as usize * Self::UNIT;
        }
        false
    }
}
