//! Executing: the body's changes, its result and its record, committed by one store.
//!
//! What depends on the types of a call is behind [`Job`], so that a program holds the rest once, however many kinds of
//! steps it has.

use crate::bypass::Recalled;
use crate::error::{ERROR_BYTES, Error, Failed};
use crate::header::{Check, Kind};
use crate::open::Replay;
use crate::step::Step;
use crate::table::{Full, Staged, Table};
use nvmem::cross::{Arg, Ret};
use nvmem::{Model, Persist, planted};
use pmem_tx::{Context, Prepared, Root, Tx, Width};

/// The most handles that one step can be given for good.
pub(crate) const MOST_HANDLES: usize = 8;

/// A body with its arguments, and its result.
pub(crate) trait Job<R: Persist, M: Model>
where
    M::Unit: Width,
{
    fn run<'p>(
        &mut self,
        step: &Step<'_, 'p, M>,
        root: &mut Root<'p, R::At<'p>, M::Unit>,
    ) -> Result<(), Error>;
    /// Tells the bytes of the result.
    fn tell(&self, f: &mut dyn FnMut(&[u8]));
}

/// What runs in a transaction.
pub(crate) type Transaction<'a, R, M> = dyn for<'t, 'r, 'p> FnMut(
        &'t Tx<'p, M>,
        &'r mut Root<'p, <R as Persist>::At<'p>, <M as Model>::Unit>,
    ) -> Result<(), pmem_tx::Error>
    + 'a;

/// Runs `body` and prepares its commit.
#[inline(never)]
pub(crate) fn prepare<'c, 'a, R: Persist + 'a, M: Model + 'a>(
    context: &'c mut Context<'_, R, M>,
    body: &'a mut Transaction<'a, R, M>,
) -> Result<Prepared<'c, (), (), M>, Error>
where
    M::Unit: Width,
{
    match context.prepare::<(), (), _>((), |tx, root, ()| body(tx, root)) {
        Ok(p) => Ok(p),
        Err(f) => Err(f.error.into()),
    }
}

/// The job of a call.
struct Work<'a, A, O, F> {
    args: &'a A,
    body: Option<F>,
    session: u32,
    result: Option<O>,
}

impl<R: Persist, M: Model, A: Arg, O: Ret, F> Job<R, M> for Work<'_, A, O, F>
where
    M::Unit: Width,
    F: for<'p> FnOnce(
        &Step<'_, 'p, M>,
        &mut Root<'p, R::At<'p>, M::Unit>,
        A::In<'p>,
    ) -> Result<O::In<'p>, Error>,
{
    fn run<'p>(
        &mut self,
        step: &Step<'_, 'p, M>,
        root: &mut Root<'p, R::At<'p>, M::Unit>,
    ) -> Result<(), Error> {
        if let Some(body) = self.body.take() {
            // SAFETY: if the step commits the caller forgets the arguments, if not it is undone.
            let args = unsafe { self.args.enter() };
            let o = body(step, root, args)?;
            self.result = Some(O::leave(o, self.session));
        }
        Ok(())
    }
    fn tell(&self, f: &mut dyn FnMut(&[u8])) {
        if let Some(o) = &self.result {
            o.encode(f)
        }
    }
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// A call that [`Replay::bypass`] has not settled.
    #[inline(never)]
    pub(crate) fn consider<A: Arg, O: Ret, F>(
        &mut self,
        check: Check,
        args: A,
        body: F,
    ) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        let (mut given, mut n) = ([0; MOST_HANDLES], 0);
        if A::OWNED > 0 {
            args.owned(&mut |o| {
                if let Some(slot) = given.get_mut(n) {
                    *slot = o;
                    n += 1;
                }
            });
        }
        let given = given.get(..n).unwrap_or_default();
        let session = self.pool.session();
        let fits = A::OWNED <= MOST_HANDLES;
        let mut work = Work {
            args: &args,
            body: Some(body),
            session,
            result: None,
        };
        let r = match self.settle(
            check,
            fits.then_some(given),
            args.of_session(session),
            O::BYTES,
            &mut work,
        ) {
            Ok(None) => work.result.ok_or(Error::Other),
            Ok(Some(r)) => self.result::<A, O>(&r),
            Err(e) => Err(e),
        };
        match r {
            Ok(o) => {
                // Consumed, now or by the first execution.
                core::mem::forget(args);
                Ok(o)
            }
            Err(error) => Err(Failed { error, args }),
        }
    }

    /// Finds the record of a call, or runs its body and commits it with its record, or records why it failed.
    #[inline(never)]
    fn settle(
        &mut self,
        check: Check,
        given: Option<&[u32]>,
        of_session: bool,
        bytes: usize,
        job: &mut dyn Job<R, M>,
    ) -> Result<Option<Recalled>, Error> {
        self.going()?;
        if self.cur.replaying() {
            return self
                .recall(check, given.unwrap_or_default(), bytes)
                .map(Some);
        }
        // What can be refused is refused before the body runs.
        let Some(owned) = given else {
            return Err(Error::TooManyHandles {
                limit: MOST_HANDLES as u8,
            });
        };
        if !of_session {
            return Err(pmem_tx::Error::WrongPool.into());
        }
        let unit = Table::<M>::UNIT;
        let units = (bytes.div_ceil(unit) + owned.len()).max(ERROR_BYTES / unit);
        self.table.fits(&self.cur, Table::<M>::takes(units))?;
        match self.commit(check, owned, bytes, job)? {
            None => Ok(None),
            Some(e) => Err(self.failed(check, e)),
        }
    }

    /// Runs a body and commits it; gives why it failed, if it did.
    fn commit(
        &mut self,
        check: Check,
        owned: &[u32],
        mut bytes: usize,
        job: &mut dyn Job<R, M>,
    ) -> Result<Option<Error>, Error> {
        let table = &self.table;
        let queue = table.queue();
        let mut why = None;
        let mut context = self.pool.context();
        debug_assert_eq!(context.next_seq(), table.geo.next(self.cur.seq));
        let prepared = prepare(&mut context, &mut |tx, root| {
            let r = job.run(&Step { tx, queue: &queue }, root);
            why = r.err().or(queue.failed.get());
            match why {
                None => Ok(()),
                Some(_) => Err(pmem_tx::Error::Aborted(0)),
            }
        });
        let prepared = match prepared {
            Ok(p) => p,
            // A handle was lost in the body, although that has ended well.
            Err(e) => return Ok(Some(why.unwrap_or(e))),
        };
        let kind = match owned.len() {
            0 => Kind::Done,
            _ => Kind::Took,
        };
        if bytes == 0 {
            // Or not known before.
            job.tell(&mut |b| bytes += b.len());
        }
        let unit = Table::<M>::UNIT;
        let units = bytes.div_ceil(unit) + owned.len();
        // An error here undoes the step.
        let (mut to, staged) = table.stage(&self.cur, kind, units, check)?;
        for (i, o) in owned.iter().enumerate() {
            // Objects are aligned to 8: the lowest bit marks the last.
            table.store(to, o | u32::from(i + 1 == owned.len()));
            to += unit;
        }
        table.pack(to, &|f| job.tell(f));
        let seq = table.geo.next(self.cur.seq);
        queue.stage(seq);
        if planted!("nv-replay/outbox-drained-before-commit") {
            queue.drain(seq, &mut self.outlet);
        }
        table.seal(&mut self.cur, staged);
        prepared.committed();
        queue.drain(seq, &mut self.outlet);
        Ok(None)
    }

    /// Records that a step failed; gives the error as a replay will.
    #[cold]
    #[inline(never)]
    fn failed(&mut self, check: Check, error: Error) -> Error {
        if planted!("nv-replay/failure-not-recorded") {
            return error;
        }
        let unit = Table::<M>::UNIT;
        let ([first, second], len) = error.encode();
        let mut units = len.div_ceil(unit);
        let mut staged = self.stage_failure(check, units);
        if staged.is_err() {
            // For the first part there is room.
            units = ERROR_BYTES / unit;
            staged = self.stage_failure(check, units);
        }
        let (to, staged) = match staged {
            Ok(s) => s,
            Err(full) => return full.into(),
        };
        for i in 0..units {
            let w = if i * unit < 4 { first } else { second };
            self.table.store(to + i * unit, w >> (i * unit % 4 * 8));
        }
        // The number of the step that was undone is that of the record.
        match self.pass_number() {
            Ok(()) => {
                let seq = self.table.geo.next(self.cur.seq);
                self.table.mark_outbox(seq, false);
                self.table.seal(&mut self.cur, staged);
                Error::decode(first, (units * unit > 4).then_some(second))
            }
            Err(e) => e,
        }
    }

    fn stage_failure(&self, check: Check, units: usize) -> Result<(usize, Staged), Full> {
        self.table.stage(&self.cur, Kind::Failed, units, check)
    }

    /// An empty transaction: numbers are used up one by one, because the pool clears what would come round again.
    pub(crate) fn pass_number(&mut self) -> Result<(), Error> {
        prepare(&mut self.pool.context(), &mut |_, _| Ok(()))?.committed();
        Ok(())
    }
}
