//! Steps: executed once, bypassed ever after.

use crate::error::{ERROR_BYTES, Error, Failed, What};
use crate::header::{Check, Kind};
use crate::open::Replay;
use crate::outbox::{Port, Queue};
use crate::site;
use crate::table::{Content, Table};
use core::ops::Deref;
use core::panic::Location;
use nvmem::cross::{Arg, Ret};
use nvmem::persist::NoHandles;
use nvmem::{InOrder32, Model, Persist, Plain, planted};
use pmem_tx::{Root, Tx, Width};

/// The most handles that one step can be given for good.
pub(crate) const MOST_HANDLES: usize = 8;

/// A running step: the token of its transaction, to which it dereferences, and the way to the outbox.
pub struct Step<'t, 'p, M = InOrder32> {
    tx: &'t Tx<'p, M>,
    queue: &'t Queue<'t, M>,
}

impl<'p, M> Deref for Step<'_, 'p, M> {
    type Target = Tx<'p, M>;
    fn deref(&self) -> &Tx<'p, M> {
        self.tx
    }
}

impl<M: Model> Step<'_, '_, M> {
    /// Queues an output. It leaves the device after the step has committed, at least once, with a number that stays the
    /// same when it is sent again; never, if the step does not commit.
    ///
    /// **Cost**: the value and one unit; one unit each for the first message of a step, its number (two on 16-bit units) and
    /// to mark it. **Errors**: [`Error::OutboxFull`], and the step can only abort.
    pub fn send<T: Plain>(&self, port: &Port<T>, value: T) -> Result<(), Error> {
        self.queue.send(port, &value)
    }

    /// Like [`Step::send`], for bytes.
    pub fn send_bytes(&self, port: &Port<[u8]>, bytes: &[u8]) -> Result<(), Error> {
        self.queue.send_bytes(port, bytes)
    }

    /// An error that aborts the step with the program's own code: `return Err(tx.abort(7))`. The abort is recorded.
    pub fn abort(&self, code: u16) -> Error {
        Error::Aborted(code)
    }
}

/// The body of a step: a function pointer. A closure that captures anything is none, so that nothing volatile is changed
/// which a bypass would not change; what the body needs comes in as an argument.
pub type Body<R, M, A, O> = for<'p> fn(
    &Step<'_, 'p, M>,
    &mut Root<'p, <R as Persist>::At<'p>, <M as Model>::Unit>,
    <A as Arg>::In<'p>,
) -> Result<O, Error>;

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Runs a step, once in the life of the program: all that `body` does to persistent objects happens with the record of
    /// the step, or nothing. When the program runs again, the recorded result is returned instead.
    ///
    /// A step that fails is undone, and its error is recorded, so that a replay takes the same way.
    ///
    /// **Power loss**: before the record's header is stored, nothing of the step; after it, all. **Cost**: one store of one
    /// unit to commit, and one for each unit of the result and of each handle that is given away (on 16-bit units one more
    /// if there are any); what the body does. **Errors**: [`Failed`] with the arguments, by `?` an [`Error`].
    /// **Panics**: never; a body that unwinds is undone, and nothing is recorded.
    #[track_caller]
    #[inline]
    pub fn step<A: Arg, O>(&mut self, args: A, body: Body<R, M, A, O>) -> Result<O, Failed<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.run::<A, O>(site::site(Location::caller()), args, body)
    }

    /// Like [`Replay::step`], with a result that may hold handles: name its type, as in `step_own::<_, Held<Node>>`.
    #[track_caller]
    #[inline]
    #[allow(clippy::type_complexity)]
    pub fn step_own<A: Arg, O: Ret>(
        &mut self,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    ) -> Result<O, Failed<A>> {
        self.run::<A, O>(site::site(Location::caller()), args, body)
    }

    /// Like [`Replay::step_own`], told apart from other steps by a number instead of its place in the source: it may move.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub fn step_at<A: Arg, O: Ret>(
        &mut self,
        id: u32,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    ) -> Result<O, Failed<A>> {
        self.run::<A, O>(site::Hash::new().word(id).finish(), args, body)
    }

    #[allow(clippy::type_complexity)]
    fn run<A: Arg, O: Ret>(
        &mut self,
        site: u32,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    ) -> Result<O, Failed<A>> {
        if let Err(error) = self.going() {
            return Err(Failed { error, args });
        }
        let check = Check {
            site,
            args: site::args(&args),
        };
        if self.frames[self.level].replaying() {
            self.bypass(check, args)
        } else {
            self.execute(check, args, |tx, root, a| body(tx, root, a))
        }
    }

    /// The first execution.
    pub(crate) fn execute<A: Arg, O: Ret, F>(
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
        let (level, mut owned, mut given) = (self.level, [0; MOST_HANDLES], 0);
        args.owned(&mut |o| {
            if let Some(slot) = owned.get_mut(given) {
                *slot = o
            }
            given += 1
        });
        let ready = if given > MOST_HANDLES {
            Err(Error::TooManyHandles {
                limit: MOST_HANDLES as u8,
            })
        } else {
            self.ready::<A, O>(&args, given)
        };
        if let Err(error) = ready {
            return Err(Failed { error, args });
        }
        match self.commit::<A, O, F>(check, args, &owned[..given], body) {
            Ok((o, 0)) => Ok(o),
            Ok((o, _)) => {
                // The messages were written a moment ago.
                let _ = self.drain(self.frames[level].seq);
                Ok(o)
            }
            Err((f, true)) => Err(Failed {
                error: self.record_failure(check, f.error),
                args: f.args,
            }),
            Err((f, false)) => Err(f),
        }
    }

    /// Runs the body and commits it; gives the number of messages, or whether the failure is one of the body.
    #[allow(clippy::type_complexity)]
    fn commit<A: Arg, O: Ret, F>(
        &mut self,
        check: Check,
        args: A,
        owned: &[u32],
        body: F,
    ) -> Result<(O, u32), (Failed<A>, bool)>
    where
        F: for<'p> FnOnce(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        let level = self.level;
        let (table, frame) = (&self.table, &mut self.frames[level]);
        let queue = table.queue();
        let mut context = self.pool.context();
        debug_assert_eq!(context.next_seq(), table.geo.next(frame.seq));
        let why = core::cell::Cell::new(None);
        let prepared = context.prepare::<A, O, _>(args, |tx, root, a| {
            let step = Step { tx, queue: &queue };
            let r = body(&step, root, a);
            let r = r.and_then(|o| queue.failed.get().map_or(Ok(o), Err));
            r.map_err(|e| {
                why.set(Some(e));
                match e {
                    Error::Tx(e) => e,
                    _ => pmem_tx::Error::Aborted(0),
                }
            })
        });
        let prepared = match prepared {
            Ok(p) => p,
            Err(f) => {
                let error = why.get().unwrap_or(Error::from(f.error));
                return Err((
                    Failed {
                        error,
                        args: f.args,
                    },
                    true,
                ));
            }
        };
        let kind = match owned.len() {
            0 => Kind::Done,
            _ => Kind::Took,
        };
        let content = Content {
            owned,
            encode: &|f| prepared.result().encode(f),
        };
        match table.stage(level, frame, kind, check, &content) {
            Ok(staged) => {
                let sends = queue.count();
                if planted!("nv-replay/outbox-drained-before-commit") && sends > 0 {
                    let seq = table.geo.next(frame.seq);
                    table.stage_outbox(seq, sends);
                    let o = &mut self.outlet;
                    let _ = table.drain(seq, &mut |m| {
                        if let Some(o) = o {
                            o.send(m)
                        }
                    });
                }
                table.seal(level, frame, staged, sends);
                Ok((prepared.committed(), sends))
            }
            Err(full) => {
                let failed = Failed {
                    error: full.into(),
                    args: prepared.abandon(),
                };
                Err((failed, false))
            }
        }
    }

    /// What can be refused before the body runs is.
    fn ready<A: Arg, O: Ret>(&self, args: &A, given: usize) -> Result<(), Error> {
        if !args.of_session(self.pool.session()) {
            return Err(pmem_tx::Error::WrongPool.into());
        }
        let t = &self.table;
        let units = t
            .units_for(given as u32, O::BYTES)
            .max(t.units_for(0, ERROR_BYTES));
        Ok(t.fits(self.level, &self.frames[self.level], units)?)
    }

    /// Records that a step failed; gives the error as a replay will.
    fn record_failure(&mut self, check: Check, error: Error) -> Error {
        if planted!("nv-replay/failure-not-recorded") {
            return error;
        }
        let level = self.level;
        let (bytes, len) = error.encode();
        let content = Content {
            owned: &[],
            encode: &|f| f(&bytes[..len]),
        };
        let staged = self
            .table
            .stage(level, &self.frames[level], Kind::Failed, check, &content);
        match staged {
            // The number of the step that was undone is that of the record.
            Ok(s) => match self.pass_number() {
                Ok(()) => {
                    self.table.seal(level, &mut self.frames[level], s, 0);
                    Error::decode(&bytes[..len.max(if len > 2 { 5 } else { len })])
                }
                Err(e) => e,
            },
            Err(full) => full.into(),
        }
    }

    /// The step is recorded: its result, or its error.
    pub(crate) fn bypass<A: Arg, O: Ret>(&mut self, check: Check, args: A) -> Result<O, Failed<A>> {
        let (level, f) = (self.level, self.frames[self.level]);
        let table = &self.table;
        let (slot, from) = (f.next, f.next_units);
        let Some(head) = table.record(level, f.half, slot, from) else {
            return self.refuse(What::Kind, args);
        };
        let (same_site, same_args) = table.geo.agrees(&head, check);
        let differs = match head.kind {
            Kind::LoopOpen | Kind::LoopDone => Some(What::Kind),
            _ if !same_site => Some(What::Site),
            _ if !same_args => Some(What::Arguments),
            _ => None,
        };
        if let Some(what) = differs {
            return self.refuse(what, args);
        }
        let mut bytes = table.content(level, f.half, from, &head);
        if head.kind != Kind::Failed {
            let mut recorded = 0;
            let (mut given, mut same) = (0, true);
            if head.kind == Kind::Took {
                recorded = table.owned(bytes).count();
            }
            args.owned(&mut |o| {
                same &= table.owned(bytes).nth(given) == Some(o) && given < recorded;
                given += 1;
            });
            if (!same || given != recorded) && !planted!("nv-replay/handles-not-compared") {
                return self.refuse(What::Handles, args);
            }
            bytes = &bytes[recorded * Table::<M>::UNIT..];
        }
        let r = if head.kind == Kind::Failed {
            Err(Error::decode(bytes))
        } else if O::BYTES > 0 && bytes.len() != O::BYTES.next_multiple_of(Table::<M>::UNIT) {
            return self.refuse(What::Result, args);
        } else {
            let bytes = if O::BYTES > 0 {
                &bytes[..O::BYTES]
            } else {
                bytes
            };
            // A handle that a later record gave away leads to what others own now.
            let mut spent = |o: u32| {
                let (mut slot, mut from) = (slot + 1, from + head.total());
                while slot < f.end {
                    let Some(h) = table.record(level, f.half, slot, from) else {
                        break;
                    };
                    if h.kind == Kind::Took {
                        let content = table.content(level, f.half, from, &h);
                        if table.owned(content).any(|x| x == o) {
                            return true;
                        }
                    }
                    slot += 1;
                    from += h.total();
                }
                false
            };
            let o = if O::HANDLES == 0 {
                // SAFETY: `NoHandles` refuses every handle.
                unsafe { O::decode(bytes, self.pool.session(), &mut NoHandles) }.ok()
            } else {
                self.pool.adopt_but::<O>(bytes, &mut spent).ok()
            };
            match o {
                Some(o) => Ok(o),
                None => return self.refuse(What::Result, args),
            }
        };
        self.pass(head.total());
        match r {
            Ok(o) => {
                // Consumed by the first execution.
                core::mem::forget(args);
                Ok(o)
            }
            Err(error) => Err(Failed { error, args }),
        }
    }

    /// The program is behind another record.
    pub(crate) fn pass(&mut self, units: u32) {
        let f = &mut self.frames[self.level];
        f.next += 1;
        f.next_units += units;
        self.check_live();
    }

    fn refuse<T, A>(&mut self, what: What, args: A) -> Result<T, Failed<A>> {
        Err(Failed {
            error: self.diverged(what),
            args,
        })
    }
}
