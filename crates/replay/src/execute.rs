//! Executing: the body's changes, its result and its record, committed by one store.
//!
//! What depends on the types of a call is behind [`Job`], so that a program holds the rest once, however many kinds of
//! steps it has.

use crate::bypass::Known;
use crate::each::Loop;
use crate::error::{Error, Failed};
use crate::join::{Commit, Committed, Join};
use crate::open::Replay;
use crate::step::Step;
use crate::table::{Frame, Out, Table};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{Model, Persist, planted};
use pmem_tx::{Root, Width};

/// The most handles that one step can be given for good.
pub(crate) const MOST_HANDLES: usize = 8;

/// What is known of a call before it is executed.
pub(crate) struct Call {
    /// Who makes it, see [`Table::id`].
    pub id: u32,
    /// The header of its record, but for the number.
    pub header: u32,
    /// Bytes that must be left for its payload, or its error.
    pub room: usize,
    /// The header settles all of a record: what differs from it is no result of the call.
    pub simple: bool,
}

/// What happens with a record: a body with its arguments. Writes the payload from `to.body` on, and says in `to.end` where it
/// ends.
pub(crate) trait Job<R: Persist, M: Model>
where
    M::Unit: Width,
{
    fn run<'p>(
        &mut self,
        step: &Step<'_, 'p, M>,
        root: &mut Root<'p, R::At<'p>, M::Unit>,
        to: &mut Frame,
    ) -> Result<(), Error>;
}

/// Who joins a step with a result.
pub(crate) type JoinOf<'a, O> =
    dyn for<'c> FnMut(&O, Commit<'c>) -> Result<Committed<'c>, Error> + 'a;

/// A closure of this kind.
fn joins<F: for<'c> FnMut(Commit<'c>) -> Result<Committed<'c>, Error>>(f: F) -> F {
    f
}

/// The job of a call.
struct Work<'a, A, O, F> {
    id: u32,
    args: &'a A,
    body: Option<F>,
    session: u32,
    result: &'a Cell<Option<O>>,
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
        to: &mut Frame,
    ) -> Result<(), Error> {
        let Some(body) = self.body.take() else {
            return Err(Error::Other);
        };
        // SAFETY: if the step commits the caller forgets the arguments, if not it is undone.
        let args = unsafe { self.args.enter() };
        let o = O::leave(body(step, root, args)?, self.session);
        let mut units = Known::<A, O, M>::UNITS;
        if Known::<A, O, M>::OPEN {
            let mut bytes = 0;
            o.encode(&mut |b| bytes += b.len());
            units = (bytes.div_ceil(Table::<M>::UNIT) + A::OWNED) as u32;
        }
        let words = Known::<A, O, M>::words(self.id, units);
        let mut out = Out::new(step.queue.table, to.body);
        if Known::<A, O, M>::OPEN {
            let total = (words.extra() + units as usize) * Table::<M>::UNIT;
            if total > to.at.saturating_sub(to.body) {
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
        if O::BYTES > 0 || Known::<A, O, M>::OPEN {
            o.encode(&mut |b| out.bytes(b));
            if Known::<A, O, M>::OPEN || !O::BYTES.is_multiple_of(Table::<M>::UNIT) {
                out.end();
            }
        }
        self.result.set(Some(o));
        to.end = out.to;
        Ok(())
    }
}

/// A failure, to be recorded.
struct Failure(u32, u32);
impl<R: Persist, M: Model> Job<R, M> for Failure
where
    M::Unit: Width,
{
    fn run<'p>(
        &mut self,
        step: &Step<'_, 'p, M>,
        _: &mut Root<'p, R::At<'p>, M::Unit>,
        to: &mut Frame,
    ) -> Result<(), Error> {
        let mut out = Out::new(step.queue.table, to.body);
        if Table::<M>::NARROW {
            out.word(self.0);
        }
        out.word(self.1);
        to.end = out.to;
        Ok(())
    }
}

impl Call {
    /// Of no record.
    pub const NONE: Call = Call {
        id: 0,
        header: 0,
        room: 0,
        simple: false,
    };
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// A call that [`Replay::bypass`] has not settled.
    #[inline(never)]
    pub(crate) fn consider<A: Arg, O: Ret, F>(
        &mut self,
        id: u32,
        args: A,
        body: F,
        join: Option<&mut JoinOf<'_, O>>,
    ) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        let session = self.pool.session();
        let refused = if A::OWNED > MOST_HANDLES {
            Some(Error::TooManyHandles)
        } else if !args.of_session(session) {
            Some(Error::WrongPool)
        } else {
            None
        };
        let result = Cell::new(None);
        let mut work = Work {
            id,
            args: &args,
            body: Some(body),
            session,
            result: &result,
        };
        let r = match refused {
            // What can be refused is refused before the body runs.
            Some(e) if !self.replaying() => self.going().and(Err(e)),
            _ => {
                let call = Known::<A, O, M>::call(id);
                match join {
                    None => self.settle(&call, &mut work, None),
                    Some(join) => {
                        let mut join = joins(|c| {
                            let o = result.take();
                            let r = match &o {
                                Some(o) => join(o, c),
                                None => Err(Error::Other),
                            };
                            result.set(o);
                            r
                        });
                        self.settle(&call, &mut work, Some(&mut join))
                    }
                }
            }
        };
        let r = match (r, result.into_inner()) {
            (Ok(()), Some(o)) => Ok(o),
            (Ok(()), None) => self.result::<A, O>(&args),
            (Err(e), _) => Err(e),
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

    /// Finds the record of a call; or runs its body and commits it with its record, or records why it failed.
    #[inline(never)]
    fn settle(
        &mut self,
        call: &Call,
        job: &mut dyn Job<R, M>,
        join: Option<&mut Join<'_>>,
    ) -> Result<(), Error> {
        self.going()?;
        if self.replaying() {
            return self.recall(call);
        }
        let e = match self.commit(call, Some(job), None, join) {
            Ok(()) => return Ok(()),
            // It was not even tried, or its result is of a length that is only known now.
            Err(Error::TableFull) => return Err(Error::TableFull),
            Err(e) => e.recorded(),
        };
        if planted!("nv-replay/failure-not-recorded") {
            return Err(e);
        }
        let (kind, number) = e.encode();
        let words = Table::<M>::encode(kind, 1, true, call.id);
        let call = Call {
            header: words.header,
            ..*call
        };
        let mut failure = Failure(words.second.unwrap_or(0), number);
        self.commit(&call, Some(&mut failure), None, None)?;
        Err(e)
    }

    /// Runs a job and commits it with its record; or ends an iteration; or does nothing, and uses up a number, because the
    /// pool clears what would come round again.
    ///
    /// **Errors**: why it failed; [`Error::TableFull`] if there is no room.
    #[inline(never)]
    pub(crate) fn commit(
        &mut self,
        call: &Call,
        job: Option<&mut dyn Job<R, M>>,
        ends: Option<&Loop>,
        join: Option<&mut Join<'_>>,
    ) -> Result<(), Error> {
        let Frame { at, body, .. } = self.cur;
        if call.room > at.saturating_sub(body) {
            return Err(Error::TableFull);
        }
        let mut context = self.pool.context();
        let seq = context.next_seq();
        let queue = self.table.queue(seq);
        let mut to = self.cur;
        let recorded = job.is_some();
        if recorded && planted!("nv-replay/header-before-result") {
            self.table.store(at, call.header | Table::<M>::tag(seq));
        }
        let mut why = Error::Other;
        let prepared = context.prepare::<(), (), _>((), |tx, root, ()| {
            let Some(job) = job else { return Ok(()) };
            let step = Step { tx, queue: &queue };
            let r = job.run(&step, root, &mut to);
            why = queue.failed.get();
            match r {
                Ok(()) if why == Error::Other => return Ok(()),
                // Said only by this crate: what a body says is recorded.
                Ok(()) | Err(Error::TableFull) => {}
                Err(e) => why = e,
            }
            Err(pmem_tx::Error::Aborted(0))
        });
        let prepared = match prepared {
            Ok(p) => p,
            Err(f) => {
                return Err(match f.error {
                    pmem_tx::Error::Aborted(_) => why,
                    // A handle was lost in the body, although that has ended well.
                    e => e.into(),
                });
            }
        };
        queue.stage();
        if planted!("nv-replay/outbox-drained-before-commit") {
            queue.drain(&mut self.outlet);
        }
        let (table, cur) = (&self.table, &mut self.cur);
        let mut prepared = Some(prepared);
        // And what is in RAM, at once: who joins may unwind.
        let mut store = || {
            if recorded {
                table.seal(at, to.end, seq, call.header);
                let at = at - Table::<M>::UNIT;
                let body = to.end;
                *cur = Frame { at, end: at, body };
            } else if let Some(l) = ends {
                let state = l.inside.body - Table::<M>::STATE;
                table.put_state(state, &l.state(seq));
                *cur = l.inside;
            }
            if let Some(p) = prepared.take() {
                p.committed();
            }
        };
        match join {
            None => store(),
            Some(join) => {
                if planted!("nv-replay/committed-before-join") {
                    store();
                }
                let commit = Commit {
                    number: seq,
                    store: &mut store,
                    _brand: PhantomData,
                };
                let joined = join(commit).map(|_| ());
                if prepared.is_some() {
                    // Not stored: undone.
                    return Err(joined.err().map_or(Error::Other, Error::recorded));
                }
            }
        }
        queue.drain(&mut self.outlet);
        Ok(())
    }
}
