//! Bypass: a call whose record is already in the table returns the recorded result.
//!
//! ```text
//! call of a step (its id: hash of call site and arguments)
//!    |
//!    v
//! fast path `bypass`: HEADER_ONLY calls only
//!    header on the medium == header computed at compile time + id?
//!    |                        |
//!    | yes                    | no, or handles, or a result of unknown length
//!    v                        v
//! decode the result      slow path `match_record`, `recorded_result`
//! advance the cursor        same id?          no -> Error::Diverged, `divergence()` says where
//!                           error recorded?   -> return that error
//!                           handles equal?    no -> Error::Diverged
//!                           decode the result, adopt its handles, advance the cursor
//! ```
//!
//! Most records belong to steps that consume no handle and return a plain value. For such a call
//! the compiler knows the whole header except the sequence number, so one comparison decides. All
//! other records take the slow path, which also finds out what differs after a divergence.
//!
//! Safe because the decoder checks every byte that it turns into a value (a `bool`, an `enum`): a
//! damaged record is an error, never an invalid value. Handles come back only through the slow
//! path, which lets the pool adopt each handle at most once (invariant "Held once").

use crate::error::{Error, Mismatch};
use crate::execute::RecordShape;
use crate::header::{CallKind, HeaderWords, RecordView};
use crate::open::Replay;
use crate::table::{Cursor, Table};
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret, UNKNOWN_LENGTH};
use nvmem::persist::NoHandles;
use nvmem::{Model, Persist, planted};
use pmem_tx::Width;

/// What the compiler knows about a call with arguments `A` and result `O`: the form of its record.
pub(crate) struct CallSignature<A, O, M>(PhantomData<(A, O, M)>);
impl<A: Arg, O: Ret, M: Model> CallSignature<A, O, M> {
    /// The length of the result is known only after it was encoded (`Postcard`).
    pub const UNSIZED: bool = O::BYTES == UNKNOWN_LENGTH;
    const RESULT_BYTES: usize = if Self::UNSIZED { 0 } else { O::BYTES };
    /// Units of content: handles that the call consumes, then the result.
    pub const CONTENT_UNITS: u32 =
        (Self::RESULT_BYTES.div_ceil(Table::<M>::UNIT) + A::OWNED) as u32;
    const SHORT: bool = !Self::UNSIZED && Table::<M>::short(Self::CONTENT_UNITS);
    /// The header alone identifies the record: no handles, and a length that fits into the header.
    pub const HEADER_ONLY: bool = A::OWNED == 0 && O::HANDLES == 0 && Self::SHORT;
    const KIND: CallKind = if A::OWNED == 0 {
        CallKind::Done
    } else {
        CallKind::TookHandles
    };

    /// The header words of the call's record.
    #[inline(always)]
    pub const fn header_words(id: u32, units: u32) -> HeaderWords {
        Table::<M>::encode(Self::KIND, units, Self::SHORT, id)
    }

    pub const SHAPE: RecordShape = {
        let words = Self::header_words(0, Self::CONTENT_UNITS);
        let units = words.extra_units() + Self::CONTENT_UNITS as usize;
        // An error takes one unit; on 16-bit units also a unit that describes it.
        let least = if Table::<M>::NARROW { 2 } else { 1 };
        RecordShape {
            header: words.header,
            min_bytes: Table::<M>::UNIT * (1 + if units > least { units } else { least }),
            header_only: Self::HEADER_ONLY,
        }
    };
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// The fast path: the recorded result, if the next record belongs to this call and its bytes
    /// are a valid `O`. `None` sends the caller to the slow path.
    #[inline(always)]
    pub(crate) fn bypass<A: Arg, O: Ret>(&mut self, id: u32) -> Option<O> {
        let f = &self.cursor;
        if !CallSignature::<A, O, M>::HEADER_ONLY || f.at == f.end {
            return None;
        }
        let units = CallSignature::<A, O, M>::CONTENT_UNITS;
        let words = CallSignature::<A, O, M>::header_words(id, units);
        if !Table::<M>::same_call(self.table.load(f.at), words.header)
            && !planted!("nv-replay/bypass-without-header-check")
        {
            return None;
        }
        let payload = f.payload;
        if let Some(second) = words.second
            && self.table.load(payload) != second
        {
            return None;
        }
        let content = payload + words.extra_units() * Table::<M>::UNIT;
        let bytes = self
            .table
            .bytes(content, CallSignature::<A, O, M>::RESULT_BYTES);
        // SAFETY: invariant "Held once": `NoHandles` refuses every handle.
        let o = unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok()?;
        self.advance(content + units as usize * Table::<M>::UNIT);
        Some(o)
    }

    /// Checks the next record against a call of any kind. **Errors**: the error that the record
    /// holds, or [`Error::Diverged`].
    #[inline(never)]
    pub(crate) fn match_record(&mut self, id: u32, shape: &RecordShape) -> Result<(), Error> {
        let Some(h) = self.match_next(id, false) else {
            return Err(Error::Diverged);
        };
        if let CallKind::Failed | CallKind::Aborted = h.kind {
            // A failed step's content is one unit. In a damaged table it may be shorter; then this
            // reads some other unit of the table, and the number gives some error value.
            let number = self.table.load(h.content);
            self.advance_outlined(h.end);
            return Err(Error::decode(h.kind, number));
        }
        if shape.header_only && !cfg!(feature = "sabotage") {
            // The id matches but `bypass` did not accept the record: its bytes are no value of the
            // type, or it consumed handles.
            return Err(self.diverged(Mismatch::Result));
        }
        Ok(())
    }

    /// The next record, if it belongs to the call `id` and is a loop's record exactly when `looped`
    /// is true. Otherwise the program has diverged.
    #[inline(never)]
    pub(crate) fn match_next(&mut self, id: u32, looped: bool) -> Option<RecordView> {
        let found = self.table.read_record(self.cursor.at, self.cursor.payload);
        let what = match &found {
            Some(h) if (h.kind == CallKind::Loop) == looped => match h.matches_call::<M>(id) {
                (true, true) => return found,
                (false, _) => Mismatch::Site,
                (_, false) => Mismatch::Arguments,
            },
            _ => Mismatch::Kind,
        };
        self.diverged(what);
        None
    }

    /// The slow path's result, after [`Replay::match_record`] accepted the record: compares the
    /// handles that the call consumed, and decodes.
    pub(crate) fn recorded_result<A: Arg, O: Ret>(&mut self, args: &A) -> Result<O, Error> {
        if CallSignature::<A, O, M>::HEADER_ONLY && !cfg!(feature = "sabotage") {
            return Err(Error::Other);
        }
        let (table, f) = (&self.table, &self.cursor);
        let Some(h) = table.read_record(f.at, f.payload) else {
            return Err(Error::Other);
        };
        let content = table.content(&h);
        let mut recorded = 0;
        if h.kind == CallKind::TookHandles {
            recorded = table.given_handles(content).count();
        }
        let mut same = recorded == A::OWNED;
        if A::OWNED > 0 {
            let mut taken = table.given_handles(content);
            args.owned(&mut |given| same &= taken.next() == Some(given));
        }
        if !same && !planted!("nv-replay/handles-not-compared") {
            return Err(self.diverged(Mismatch::Handles));
        }
        let content = content
            .get(recorded * Table::<M>::UNIT..)
            .unwrap_or_default();
        let bytes = if CallSignature::<A, O, M>::UNSIZED {
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
            let later = Cursor {
                at: f.at - Table::<M>::UNIT,
                payload: h.end,
                ..*f
            };
            self.pool
                .adopt_unspent::<O>(bytes, &mut |o| table.given_away_later(&later, o))
                .ok()
        });
        match o {
            Some(o) => {
                self.advance_outlined(h.end);
                Ok(o)
            }
            None => Err(self.diverged(Mismatch::Result)),
        }
    }

    /// [`Replay::advance`], not inlined.
    #[inline(never)]
    pub(crate) fn advance_outlined(&mut self, payload: usize) {
        self.advance(payload)
    }

    /// The program has passed a record whose payload ends at `payload`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, payload: usize) {
        let f = &mut self.cursor;
        f.at -= Table::<M>::UNIT;
        f.payload = payload;
        if f.at == f.end || planted!("nv-replay/live-one-record-early") {
            self.check_live();
        }
    }
}

impl<M: Model> Table<'_, M> {
    /// The bytes of a record's content: handles, result.
    fn content(&self, h: &RecordView) -> &[u8] {
        self.bytes(h.content, h.end - h.content)
    }

    /// Whether a later record consumed this handle. If so, another object owns it by now, and it
    /// must not be adopted.
    fn given_away_later(&self, f: &Cursor, handle: u32) -> bool {
        let (mut at, mut payload) = (f.at, f.payload);
        while at != f.end {
            let Some(h) = self.read_record(at, payload) else {
                break;
            };
            if h.kind == CallKind::TookHandles
                && self
                    .given_handles(self.content(&h))
                    .any(|given| given == handle)
            {
                return true;
            }
            at -= Self::UNIT;
            payload = h.end;
        }
        false
    }
}
