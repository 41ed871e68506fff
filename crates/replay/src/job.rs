//! Jobs: write the payload of a call's record. All code that depends on a call's types is here.

use crate::bypass::CallSignature;
use crate::error::Error;
use crate::step::Step;
use crate::table::{Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{Model, Persist, planted};
use pmem_tx::{Root, Width};

/// Runs a call's body with its arguments and writes the record's payload.
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

/// Receives a call's result after it was written to the record.
pub(crate) trait ResultSink<O> {
    /// The session that the result's handles get.
    fn session(&self) -> u32;
    /// Takes the result, and the end of its record's payload.
    fn put(&self, o: O, end: usize);
}

/// Drops the result: the caller reads it from the record, as a replay does.
pub(crate) struct DropResult;
impl<O> ResultSink<O> for DropResult {
    fn session(&self) -> u32 {
        0
    }
    fn put(&self, _: O, _: usize) {}
}

/// Keeps the result in RAM: its handles belong to the running transaction, or a join reads it.
pub(crate) struct KeepResult<O> {
    pub session: u32,
    pub result: Cell<Option<O>>,
    pub end: Cell<usize>,
}
impl<O> ResultSink<O> for KeepResult<O> {
    fn session(&self) -> u32 {
        self.session
    }
    fn put(&self, o: O, end: usize) {
        self.result.set(Some(o));
        self.end.set(end);
    }
}

/// The job of a call.
pub(crate) struct CallJob<'a, A, O, F, K> {
    pub id: u32,
    pub args: &'a A,
    pub body: F,
    pub sink: &'a K,
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
        // SAFETY: invariant "Sole owner": called once in a transaction. If the step commits, the
        // caller forgets the arguments. If it does not, or the body unwinds, the step is undone.
        let args = unsafe { self.args.enter() };
        let o = (self.body)(step, root, args)?;
        // SAFETY: invariant "Sole owner": the result is used only if the step commits, and the
        // session is the pool's.
        let o = unsafe { O::leave(o, self.sink.session()) };
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
                // Objects are aligned to 8 bytes: the lowest bit marks the last handle.
                out.word(o | u32::from(n == A::OWNED))
            });
        }
        if CallSignature::<A, O, M>::UNSIZED {
            // A user's `Serialize` may produce more bytes the second time than the room that was
            // checked.
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
        self.sink.put(o, out.to);
        Ok(())
    }
}

/// The job of a step whose join did not commit: fails with the join's error.
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
