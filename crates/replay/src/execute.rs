//! Execution: commits a step's changes, its result and its record with one store.
//!
//! ```text
//! Replay::commit                                                     cut here leaves
//!  1 run the body in a transaction of the pool; its result           old state (roll back)
//!    goes to the payload area, its messages to the outbox
//!  2 pool: journal and new values are on the medium ("prepared")     old state (roll back)
//!  3 outbox head: the messages belong to number n                    old state
//!  4 clear the header behind the new one, if it carries n + 1        old state
//!  5 fence
//!  6 store the header with number n    <-- the one commit store      old or new, never both
//!  7 fence
//!  8 pool: end the transaction                                       new state
//!  9 send the messages, mark them as sent                            new state; sent again
//! ```
//!
//! The pool learns at open which number is committed last: it is the number of the table's last
//! record. So one store commits the pool's transaction, the result and the messages together
//! (invariants "One number, one transaction" and "Content before header"). With `step_join` a third
//! party stages between 3 and 4 with the same number.
//!
//! Code that depends on a call's types is behind [`Job`], so a program contains the rest only once.

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

/// The maximum number of handles that one step can consume.
pub(crate) const MOST_HANDLES: usize = 8;

/// The form of a call's record, known at compile time.
pub(crate) struct RecordShape {
    /// The record's header without sequence number and call id; 0 if the call has no record.
    pub header: u32,
    /// Bytes that must be free for the header and the payload, or for an error.
    pub min_bytes: usize,
    /// The header alone identifies the record, see `CallSignature::HEADER_ONLY`.
    pub header_only: bool,
}

impl RecordShape {
    /// No record.
    pub const NONE: RecordShape = RecordShape {
        header: 0,
        min_bytes: 0,
        header_only: false,
    };
}

/// The closure that joins a step, with access to the step's result.
pub(crate) type JoinOf<'a, O> =
    dyn for<'c> FnMut(&O, Commit<'c>) -> Result<Committed<'c>, Error> + 'a;

/// Makes the compiler infer the closure's higher-ranked lifetime.
fn joins<F: for<'c> FnMut(Commit<'c>) -> Result<Committed<'c>, Error>>(f: F) -> F {
    f
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Bypasses or executes a call. After an execution the result is read back from the record by
    /// [`Replay::bypass`].
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
            // A planted bug may accept a record that `bypass` rejects, and this loop would not end.
            if !CallSignature::<A, O, M>::HEADER_ONLY || cfg!(feature = "sabotage") {
                return self.call_slow(id, args, &body, None);
            }
            if let Err(error) = self.execute::<A, O, F>(id, &args, &body) {
                return Err(StepError { error, args });
            }
        }
    }

    /// Executes a call whose result is read back from its record.
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
            sink: &DropResult,
            _o: PhantomData,
        };
        let shape = const { &CallSignature::<A, O, M>::SHAPE };
        self.commit(id, shape, Some(&work), None, None)
    }

    /// The slow path of a call: handles, results of unknown length, joins, and everything that
    /// `bypass` did not accept.
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
            sink: &kept_result,
            _o: PhantomData,
        };
        let shape = const { &CallSignature::<A, O, M>::SHAPE };
        let r = match refused {
            // Refuse before the body runs.
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
                // `commit` has moved the cursor behind a joined step already.
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

    /// Checks the next record against a call. If there is none, runs `job` and commits its record,
    /// or the record of its error. Afterwards the cursor is before the record; if the step was
    /// joined, behind it.
    ///
    /// If `shape` is a record, it is that of `job`, or of the loop `l` in its first iteration.
    /// Otherwise this begins the next iteration of `l`, or ends it; without `l` it commits an empty
    /// transaction, so that the pool clears stale numbers.
    ///
    /// **Errors**: the error of the job; if there is no room, [`Error::TableFull`] or the reason
    /// given to [`Replay::stop`].
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
        // The error of the job, once it has failed.
        let mut failed = None;
        if recorded && planted!("nv-replay/header-before-result") {
            let header = Table::<M>::header(header, id) | Table::<M>::tag(seq);
            self.table.store(at, header);
        }
        if let (Some(l), true) = (l, recorded) {
            // `min_bytes` includes the state. Nothing at these offsets counts yet.
            out.to = payload + Table::<M>::STATE;
            if planted!("nv-replay/loop-open-before-its-start") {
                let header = Table::<M>::header(header, id);
                self.table.commit_record(at, out.to, seq, header);
            }
            l.write(&self.table, payload, seq);
        }
        let prepared = loop {
            let prepared = context.prepare_resolved::<(), (), _>((), |tx, root, ()| {
                if let Some(job) = job {
                    let step = Step { tx, queue: &queue };
                    let r = job.run(&step, root, &mut out);
                    match r {
                        Ok(()) if queue.failed.get() == Error::Other => return Ok(()),
                        Ok(()) if planted!("nv-replay/output-error-swallowed") => return Ok(()),
                        // Only this crate returns `TableFull`. A body that returns it is recorded
                        // as `Other`.
                        Ok(()) | Err(Error::TableFull) => {}
                        Err(e) => queue.failed.set(e.recorded()),
                    }
                    return Err(pmem_tx::Error::Aborted(0));
                } else if let Some(e) = failed {
                    // `min_bytes` includes the error.
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
                    // The body returned `Ok`, but the transaction cannot be prepared: for example,
                    // a handle was lost in it.
                    e => e.into(),
                },
            };
            let record = job.take().is_some() && !planted!("nv-replay/failure-not-recorded");
            // Nothing to record: a loop, an error that could not be recorded either, or a result of
            // unknown length that did not fit.
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
                    // The join did not commit: undo the step and record the error.
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
            // Return the recorded error, as a replay does.
            return self.match_record(id, shape);
        }
        Ok(())
    }
}
