//! Executing: the body's changes, its result and its record, committed by one store.
//!
//! What depends on the types of a call is behind [`Job`], so that a program holds the rest once, however many kinds of
//! steps it has.

use crate::bypass::CallSignature;
use crate::each::Loop;
use crate::error::{Error, StepError};
use crate::job::{CallJob, DropResult, FailWith, Job, KeepResult};
use crate::join::{Commit, Committed, Join};
use crate::open::{Replay, StopOnUnwind};
use crate::step::Step;
use crate::table::{Cursor, Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{Model, Persist, planted};
use pmem_tx::{Root, Width};

/// The most handles that one step can be given for good.
pub(crate) const MOST_HANDLES: usize = 8;

/// What is known of a kind of call when the program is compiled.
pub(crate) struct RecordShape {
    /// The header of its record, but for the number and who makes it.
    pub header: u32,
    /// Bytes that must be left for its header and its payload, or its error.
    pub min_bytes: usize,
    /// The header settles all of a record: what differs from it is no result of the call.
    pub header_only: bool,
}

impl RecordShape {
    /// Of no record.
    pub const NONE: RecordShape = RecordShape {
        header: 0,
        min_bytes: 0,
        header_only: false,
    };
}

/// Who joins a step with a result.
pub(crate) type JoinOf<'a, O> =
    dyn for<'c> FnMut(&O, Commit<'c>) -> Result<Committed<'c>, Error> + 'a;

/// A closure of this kind.
fn joins<F: for<'c> FnMut(Commit<'c>) -> Result<Committed<'c>, Error>>(f: F) -> F {
    f
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Settles a call whose record has a plain result, as [`Replay::bypass`] reads it.
    #[inline(always)]
    pub(crate) fn call<A: Arg, O: Ret, F>(
        &mut self,
        id: u32,
        args: A,
        body: F,
    ) -> Result<O, StepError<A>>
    where
        F: for<'p> Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        loop {
            if let Some(o) = self.bypass::<A, O>(id) {
                // Consumed, now or by the first execution.
                core::mem::forget(args);
                return Ok(o);
            }
            // With planted bugs a record is taken for one's own that this would not read.
            if !CallSignature::<A, O, M>::HEADER_ONLY || cfg!(feature = "sabotage") {
                return self.call_slow(id, args, &body, None);
            }
            if let Err(error) = self.execute::<A, O, F>(id, &args, &body) {
                return Err(StepError { error, args });
            }
        }
    }

    /// The first execution of a call, up to its record.
    #[inline(never)]
    fn execute<A: Arg, O: Ret, F>(&mut self, id: u32, args: &A, body: &F) -> Result<(), Error>
    where
        F: for<'p> Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        if !args.of_session(self.pool.session()) && !self.replaying() {
            return self.check_running().and(Err(Error::WrongPool));
        }
        let work = CallJob::<A, O, _, _> {
            id,
            args,
            body,
            keep: &DropResult,
            _o: PhantomData,
        };
        let shape = const { &CallSignature::<A, O, M>::SHAPE };
        self.commit(id, shape, Some(&work), None, None)
    }

    /// Settles a call with all that a call can have.
    #[inline(never)]
    pub(crate) fn call_slow<A: Arg, O: Ret, F>(
        &mut self,
        id: u32,
        args: A,
        body: &F,
        join: Option<&mut JoinOf<'_, O>>,
    ) -> Result<O, StepError<A>>
    where
        F: for<'p> Fn(
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
        let kept_result = KeepResult {
            session,
            result: Cell::new(None),
            end: Cell::new(0),
        };
        let work = CallJob::<A, O, _, _> {
            id,
            args: &args,
            body,
            keep: &kept_result,
            _o: PhantomData,
        };
        let shape = const { &CallSignature::<A, O, M>::SHAPE };
        let r = match refused {
            // What can be refused is refused before the body runs.
            Some(e) if !self.replaying() => self.check_running().and(Err(e)),
            _ => match join {
                None => self.commit(id, shape, Some(&work), None, None),
                Some(join) => {
                    let mut join = joins(|c| {
                        let o = kept_result.result.take();
                        let r = match &o {
                            Some(o) => join(o, c),
                            None => Err(Error::Other),
                        };
                        kept_result.result.set(o);
                        r
                    });
                    self.commit(id, shape, Some(&work), None, Some(&mut join))
                }
            },
        };
        let r = match (r, kept_result.result.into_inner()) {
            (Ok(()), Some(o)) => {
                // Who has joined a step has passed it.
                if self.replaying() {
                    self.advance_outlined(kept_result.end.get());
                }
                Ok(o)
            }
            (Ok(()), None) => self.recorded_result::<A, O>(&args),
            (Err(e), _) => Err(e),
        };
        match r {
            Ok(o) => {
                // Consumed, now or by the first execution.
                core::mem::forget(args);
                Ok(o)
            }
            Err(error) => Err(StepError { error, args }),
        }
    }

    /// Finds the record of a call; or does what is to be done and commits it, or why it has failed. The program is before the
    /// record then, except when the step was joined.
    ///
    /// With a shape that is a record: with what `job` writes, or of the loop `l` and its first iteration. Without: the next iteration of
    /// `l`; or nothing, but a number is used up, and the pool clears what would come round again.
    ///
    /// **Errors**: why it failed; if there is no room, what [`Replay::stop`] was called with, or [`Error::TableFull`].
    #[inline(never)]
    pub(crate) fn commit(
        &mut self,
        id: u32,
        shape: &RecordShape,
        mut job: Option<&dyn Job<R, M>>,
        l: Option<&Loop>,
        join: Option<&mut Join<'_>>,
    ) -> Result<(), Error> {
        let Cursor { at, end, payload } = self.cursor;
        if at != end {
            return self.match_record(id, shape);
        }
        if at + Table::<M>::UNIT < payload + shape.min_bytes {
            return Err(self.no_room_error);
        }
        let mut header = shape.header;
        let mut context = self.pool.context();
        let seq = context.next_seq();
        let queue = self.table.queue(seq);
        let mut out = UnitWriter::new(&self.table, payload, at.saturating_sub(payload));
        let recorded = shape.header != 0;
        // Why the job has failed.
        let mut failed = None;
        if recorded && planted!("nv-replay/header-before-result") {
            let header = Table::<M>::header(header, id) | Table::<M>::tag(seq);
            self.table.store(at, header);
        }
        if let (Some(l), true) = (l, recorded) {
            // There is room for it, where nothing counts yet.
            out.to = payload + Table::<M>::STATE;
            if planted!("nv-replay/loop-open-before-its-start") {
                let header = Table::<M>::header(header, id);
                self.table.commit_record(at, out.to, seq, header);
            }
            l.write(&self.table, payload, seq);
        }
        let prepared = loop {
            let prepared = context.prepared::<(), (), _>((), |tx, root, ()| {
                if let Some(job) = job {
                    let step = Step { tx, queue: &queue };
                    let r = job.run(&step, root, &mut out);
                    match r {
                        Ok(()) if queue.failed.get() == Error::Other => return Ok(()),
                        Ok(()) if planted!("nv-replay/output-error-swallowed") => return Ok(()),
                        // Said only by this crate: what a body says is recorded.
                        Ok(()) | Err(Error::TableFull) => {}
                        Err(e) => queue.failed.set(e.recorded()),
                    }
                    return Err(pmem_tx::Error::Aborted(0));
                } else if let Some(e) = failed {
                    // There is room for it, and for a loop.
                    let (kind, number) = Error::encode(e);
                    let words = Table::<M>::encode(kind, 1, true, id);
                    header = Table::<M>::encode(kind, 1, true, 0).header;
                    out.to = payload;
                    if let Some(second) = words.second {
                        out.word(second);
                    }
                    out.word(number);
                }
                Ok(())
            });
            let e = match prepared {
                Ok(p) => break p,
                Err(f) => match f.error {
                    pmem_tx::Error::Aborted(_) => queue.failed.get(),
                    // A handle was lost in the body, although that has ended well.
                    e => e.into(),
                },
            };
            let record = job.take().is_some() && !planted!("nv-replay/failure-not-recorded");
            // Not even tried, or a result of a length that is only known now.
            if !record || e == Error::TableFull {
                return Err(e);
            }
            failed = Some(e);
            if !planted!("nv-replay/failed-step-sends") {
                queue.clear();
            }
        };
        queue.stage();
        if planted!("nv-replay/outbox-drained-before-commit") {
            queue.drain(&mut self.outlet);
        }
        let table = &self.table;
        let mut prepared = Some(prepared);
        let joined = join.is_some() && failed.is_none();
        let stored = Cell::new(false);
        let guard = StopOnUnwind {
            when: &stored,
            no_room_error: &mut self.no_room_error,
            cursor: &mut self.cursor,
            area_end: table.area_end,
        };
        let mut store = || {
            if recorded {
                table.commit_record(at, out.to, seq, Table::<M>::header(header, id));
            } else if let Some(l) = l {
                l.write(table, l.payload - Table::<M>::STATE, seq);
            }
            if let Some(p) = prepared.take() {
                p.committed();
            }
            stored.set(true);
        };
        match join {
            Some(join) if joined => {
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
                    guard.disarm();
                    let e = joined.err().map_or(Error::Other, Error::recorded);
                    drop(prepared);
                    if planted!("nv-replay/failure-not-recorded") {
                        return Err(e);
                    }
                    return self.commit(id, shape, Some(&FailWith(e)), None, None);
                }
            }
            _ => store(),
        }
        drop(prepared);
        queue.drain(&mut self.outlet);
        guard.disarm();
        if recorded {
            self.cursor.end = at - Table::<M>::UNIT;
            if joined {
                (self.cursor.at, self.cursor.payload) = (self.cursor.end, out.to);
            }
        } else if let Some(l) = l {
            let Loop { at, payload, .. } = *l;
            self.cursor = Cursor {
                at,
                end: at,
                payload,
            };
        }
        if failed.is_some() {
            // The program passes it, as in every later life.
            return self.match_record(id, shape);
        }
        Ok(())
    }
}
