//! Jobs: what a call writes into its record. All that depends on the types of a call is here.

use crate::bypass::CallSignature;
use crate::error::Error;
use crate::step::Step;
use crate::table::{Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{Model, Persist, planted};
use pmem_tx::{Root, Width};

/// What happens with a record: a body with its arguments. Writes the payload.
pub(crate) trait Job<R: Persist, M: Model>
where
    M::Unit: Width,
{
    fn run<'p>(
        &self,
        step: &Step<'_, 'p, M>,
        root: &mut Root<'p, R::At<'p>, M::Unit>,
        out: &mut UnitWriter<'_, M>,
    ) -> Result<(), Error>;
}

/// What becomes of a result, beside its record.
pub(crate) trait ResultSink<O> {
    /// The session of its handles.
    fn session(&self) -> u32;
    /// The result, and where its record ends.
    fn keep(&self, o: O, end: usize);
}

/// Nothing: it is read from its record, like one that was recorded in an earlier life.
pub(crate) struct DropResult;
impl<O> ResultSink<O> for DropResult {
    fn session(&self) -> u32 {
        0
    }
    fn keep(&self, _: O, _: usize) {}
}

/// It is kept: its handles are those of a running transaction, or who joins the step asks for it.
pub(crate) struct KeepResult<O> {
    pub session: u32,
    pub result: Cell<Option<O>>,
    pub end: Cell<usize>,
}
impl<O> ResultSink<O> for KeepResult<O> {
    fn session(&self) -> u32 {
        self.session
    }
    fn keep(&self, o: O, end: usize) {
        self.result.set(Some(o));
        self.end.set(end);
    }
}

/// The job of a call.
pub(crate) struct CallJob<'a, A, O, F, K> {
    pub id: u32,
    pub args: &'a A,
    pub body: F,
    pub keep: &'a K,
    pub _o: PhantomData<fn() -> O>,
}

impl<R: Persist, M: Model, A: Arg, O: Ret, F, K: ResultSink<O>> Job<R, M>
    for CallJob<'_, A, O, F, K>
where
    M::Unit: Width,
    F: for<'p> Fn(
        &Step<'_, 'p, M>,
        &mut Root<'p, R::At<'p>, M::Unit>,
        A::In<'p>,
    ) -> Result<O::In<'p>, Error>,
{
    fn run<'p>(
        &self,
        step: &Step<'_, 'p, M>,
        root: &mut Root<'p, R::At<'p>, M::Unit>,
        out: &mut UnitWriter<'_, M>,
    ) -> Result<(), Error> {
        // SAFETY: invariant "Sole owner": called once in a transaction; if the step commits the caller forgets the arguments, if not it
        // is undone, also when it unwinds.
        let args = unsafe { self.args.enter() };
        let o = (self.body)(step, root, args)?;
        // SAFETY: invariant "Sole owner": what leaves is kept only if the step commits, and the session is the pool's.
        let o = unsafe { O::leave(o, self.keep.session()) };
        let mut units = CallSignature::<A, O, M>::CONTENT_UNITS;
        let mut bytes = 0;
        if CallSignature::<A, O, M>::UNSIZED {
            o.encode(&mut |b| bytes += b.len());
            units = (bytes.div_ceil(Table::<M>::UNIT) + A::OWNED) as u32;
        }
        let words = CallSignature::<A, O, M>::header_words(self.id, units);
        if CallSignature::<A, O, M>::UNSIZED {
            let total = (words.extra_units() + units as usize) * Table::<M>::UNIT;
            if total > out.room {
                step.queue.failed.set(Error::TableFull);
                return Err(Error::TableFull);
            }
        }
        if let Some(w) = words.second {
            out.word(w)
        }
        if let Some(w) = words.long {
            out.word(w)
        }
        if A::OWNED > 0 {
            let mut n = 0;
            self.args.owned(&mut |o| {
                n += 1;
                // Objects are aligned to 8: the lowest bit marks the last.
                out.word(o | u32::from(n == A::OWNED))
            });
        }
        if CallSignature::<A, O, M>::UNSIZED {
            // What a program's own `Serialize` tells can be longer the second time than the room that was seen to be there.
            let mut same = true;
            o.encode(&mut |b| {
                same &= b.len() <= bytes || planted!("nv-replay/encoded-length-not-checked");
                if same {
                    bytes = bytes.wrapping_sub(b.len());
                    out.bytes(b);
                }
            });
            if !same || bytes != 0 && !planted!("nv-replay/encoded-length-not-checked") {
                return Err(Error::Other);
            }
            out.pad();
        } else if O::BYTES > 0 {
            o.encode(&mut |b| out.bytes(b));
            if !O::BYTES.is_multiple_of(Table::<M>::UNIT) {
                out.pad();
            }
        }
        self.keep.keep(o, out.to);
        Ok(())
    }
}

/// The job of a step that its joiner has refused: to fail.
pub(crate) struct FailWith(pub Error);
impl<R: Persist, M: Model> Job<R, M> for FailWith
where
    M::Unit: Width,
{
    fn run<'p>(
        &self,
        _: &Step<'_, 'p, M>,
        _: &mut Root<'p, R::At<'p>, M::Unit>,
        _: &mut UnitWriter<'_, M>,
    ) -> Result<(), Error> {
        Err(self.0)
    }
}
