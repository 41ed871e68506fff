//! Executing: the body's changes, its result and its record, committed by one store.
//!
//! What depends on the types of a call is behind [`Job`], so that a program holds the rest once, however many kinds of
//! steps it has.

use crate::error::{ERROR_BYTES, Error, Failed};
use crate::header::{Check, Kind};
use crate::open::Replay;
use crate::step::Step;
use crate::table::Table;
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
        let r = match self.going() {
            Err(e) => Err(e),
            Ok(()) if self.cur.replaying() => self
                .recall(check, given, O::BYTES)
                .and_then(|r| self.result::<A, O>(&r)),
            Ok(()) if A::OWNED > MOST_HANDLES => Err(Error::TooManyHandles {
                limit: MOST_HANDLES as u8,
            }),
            Ok(()) if !args.of_session(self.pool.session()) => {
                Err(pmem_tx::Error::WrongPool.into())
            }
            Ok(()) => {
                let mut work = Work {
                    args: &args,
                    body: Some(body),
                    session: self.pool.session(),
                    result: None,
                };
                self.perform(check, given, O::BYTES, &mut work)
                    .and_then(|()| work.result.ok_or(Error::Other))
            }
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

    /// Runs a body and commits it with its record, or records why it failed.
    #[inline(never)]
    fn perform(
        &mut self,
        check: Check,
        owned: &[u32],
        bytes: usize,
        job: &mut dyn Job<R, M>,
    ) -> Result<(), Error> {
        // What can be refused is refused before the body runs.
        let most = Table::<M>::takes(owned.len(), bytes).max(Table::<M>::takes(0, ERROR_BYTES));
        self.table.fits(self.level, &self.cur, most)?;
        match self.commit(check, owned, job)? {
            Ok(0) => Ok(()),
            Ok(_) => {
                // The messages were written a moment ago.
                let _ = self.drain(self.cur.seq);
                Ok(())
            }
            Err(e) => Err(self.failed(check, e)),
        }
    }

    /// Runs a body and commits it; gives the number of messages, or why the body failed.
    fn commit(
        &mut self,
        check: Check,
        owned: &[u32],
        job: &mut dyn Job<R, M>,
    ) -> Result<Result<u32, Error>, Error> {
        let (table, level) = (&self.table, self.level);
        let queue = table.queue();
        let mut why = None;
        let mut context = self.pool.context();
        debug_assert_eq!(context.next_seq(), table.geo.next(self.cur.seq));
        let prepared = prepare(&mut context, &mut |tx, root| {
            let r = job.run(&Step { tx, queue: &queue }, root);
            let r = r.and_then(|()| queue.failed.get().map_or(Ok(()), Err));
            r.map_err(|e| {
                why = Some(e);
                match e {
                    Error::Tx(e) => e,
                    _ => pmem_tx::Error::Aborted(0),
                }
            })
        });
        let prepared = match prepared {
            Ok(p) => p,
            Err(e) => return Ok(Err(why.unwrap_or(e))),
        };
        let kind = match owned.len() {
            0 => Kind::Done,
            _ => Kind::Took,
        };
        // An error here undoes the step.
        let staged = table.stage(level, &self.cur, kind, check, owned, &|f| job.tell(f))?;
        let sends = queue.count();
        if planted!("nv-replay/outbox-drained-before-commit") && sends > 0 {
            let seq = table.geo.next(self.cur.seq);
            table.stage_outbox(seq, sends);
            let o = &mut self.outlet;
            let _ = table.drain(seq, &mut |m| {
                if let Some(o) = o {
                    o.send(m)
                }
            });
        }
        table.seal(level, &mut self.cur, staged, sends);
        prepared.committed();
        Ok(Ok(sends))
    }

    /// Records that a step failed; gives the error as a replay will.
    #[cold]
    #[inline(never)]
    fn failed(&mut self, check: Check, error: Error) -> Error {
        if planted!("nv-replay/failure-not-recorded") {
            return error;
        }
        let (bytes, len) = error.encode();
        let level = self.level;
        let stage = |len: usize| {
            let bytes = &bytes[..len];
            self.table
                .stage(level, &self.cur, Kind::Failed, check, &[], &|f| f(bytes))
                .map(|s| (s, Error::decode(bytes)))
        };
        // For the first part there is room.
        match stage(len).or_else(|_| stage(len.min(ERROR_BYTES))) {
            // The number of the step that was undone is that of the record.
            Ok((s, error)) => match self.pass_number() {
                Ok(()) => {
                    self.table.seal(level, &mut self.cur, s, 0);
                    error
                }
                Err(e) => e,
            },
            Err(full) => full.into(),
        }
    }

    /// An empty transaction: numbers are used up one by one, because the pool clears what would come round again.
    pub(crate) fn pass_number(&mut self) -> Result<(), Error> {
        prepare(&mut self.pool.context(), &mut |_, _| Ok(()))?.committed();
        Ok(())
    }
}
