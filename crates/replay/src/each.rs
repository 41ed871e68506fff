//! Loops: a persistent iteration counter, and the records of one iteration at a time.
//!
//! A loop is one record. Its payload is the loop's state: a start word and two upper counters
//! (`table.rs` describes the words). The records of the current iteration follow it.
//!
//! ```text
//! headers, downwards      ... | loop | step a | step b | (free)   numbers 2, 8, 9
//! payloads, upwards       ... | state: start word (seq 7, iteration 3) | result of a | result of b
//!
//! end of iteration 3      one store: start word (seq 10, iteration 4)
//!
//! headers                 ... | loop | (free)          the old headers carry 8 and 9, but the next
//! payloads                ... | state | (free)         valid number is 11: they no longer count
//!
//! end of the last one     one store: start word (seq 13, done). The next record follows the loop.
//! ```
//!
//! Order of stores to begin an iteration: the upper counter if it changes (the one that the old
//! start word does not use), a fence, the start word, a fence. A cut before the start word leaves
//! the old iteration complete; a cut after it leaves the new one empty.
//!
//! Safe for two reasons. A stale header can count again only if it carries exactly the number after
//! the start word's: the end of an iteration checks for that, and skips one number. And a body that
//! replaces its runtime by another one is detected before the loop uses it: the address of the
//! `Loop` and the start of the region are compared (invariant "A loop's own runtime").

use crate::access::PoolAccess;
use crate::call::Named;
use crate::call::RecordShape;
use crate::error::{Error, Mismatch};
use crate::open::Replay;
use crate::outbox::{AnyOutlet, Outlet};
use crate::signature::{Name, kind, loop_args_hash, loop_hash};
use crate::table::{CallKind, Cursor, STATE, State, Table};
use core::convert::Infallible;
use core::ops::Range;
use nvmem::cross::Share;
use nvmem::{Model, Persist, planted};
use pmem_tx::{Pool, Width};

/// The count of an endless loop. An empty range never enters a loop, so no other loop has this
/// count.
pub(crate) const ENDLESS: u32 = 0;

/// The body of a loop without arguments: a function pointer, so that iterations share no volatile
/// state.
pub type LoopBody<'m, R, M, E = AnyOutlet<'m>, P = Pool<'m, R, M>> =
    fn(&mut Replay<'m, R, M, E, P>, u32) -> Result<(), Error>;

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Runs `body` for each number of the range. After a power cut the loop continues in the
    /// iteration that was cut. Earlier iterations are neither run nor bypassed, and their records
    /// take no space.
    ///
    /// The body is a function pointer: one iteration hands data to the next through persistent
    /// objects. Drivers come from the [environment](Replay::env). If an error leaves the body, the
    /// loop stays in this iteration and the runtime stops until the next open. To go on, handle the
    /// error inside the body.
    ///
    /// **Power loss**: an iteration is complete, or continues after its last record. **Cost**: one
    /// store to begin an iteration, two more once in 32,768 iterations (once in 128 on 16-bit
    /// units); two or three stores to open the loop, one to end it. **Errors**: those of the body,
    /// [`Error::TableFull`], [`Error::LoopTooLong`]; [`Error::Diverged`] if the program does not
    /// match its records, or the body has replaced its runtime by another one;
    /// [`Error::LoopInterrupted`] if the runtime has stopped.
    #[track_caller]
    #[inline(always)]
    pub fn each(&mut self, range: Range<u32>, body: LoopBody<'m, R, M, E, P>) -> Result<(), Error> {
        self.twins.note(loop_hash::<()>(kind::LOOP, Name::NONE));
        self.run_loop(Name::NONE, range, (), |rt, i, ()| body(rt, i))
    }

    /// Like [`Replay::each`], with arguments that each iteration receives: plain values,
    /// `&mut held` to lend a handle, and tuples of them. **Errors**: those of [`Replay::each`].
    #[track_caller]
    #[inline(always)]
    pub fn each_with<S: Share>(
        &mut self,
        range: Range<u32>,
        args: S,
        body: for<'a> fn(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.twins.note(loop_hash::<S>(kind::LOOP, Name::NONE));
        self.run_loop(Name::NONE, range, args, |rt, i, a| body(rt, i, a))
    }

    /// Runs `body` without end: the super-loop. The iteration number wraps, after 2^23 iterations
    /// on 16-bit units. Returns only with an error.
    ///
    /// **Power loss**, **Cost**: as for [`Replay::each`]. **Errors**: those of [`Replay::each`];
    /// [`Error::LoopTooLong`] only from the body.
    #[track_caller]
    #[inline(always)]
    pub fn forever(&mut self, body: LoopBody<'m, R, M, E, P>) -> Result<Infallible, Error> {
        self.twins.note(loop_hash::<()>(kind::ENDLESS, Name::NONE));
        self.run_endless(Name::NONE, (), |rt, i, ()| body(rt, i))
    }

    /// Like [`Replay::forever`], with arguments as in [`Replay::each_with`]. **Errors**: those of
    /// [`Replay::forever`].
    #[track_caller]
    #[inline(always)]
    pub fn forever_with<S: Share>(
        &mut self,
        args: S,
        body: for<'a> fn(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        self.twins.note(loop_hash::<S>(kind::ENDLESS, Name::NONE));
        self.run_endless(Name::NONE, args, |rt, i, a| body(rt, i, a))
    }

    #[inline]
    fn run_loop<S: Share>(
        &mut self,
        name: Name,
        range: Range<u32>,
        args: S,
        body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        Self::run_loop_of(self, |rt| rt, name, range, args, body)
    }

    #[inline]
    fn run_endless<S: Share>(
        &mut self,
        name: Name,
        args: S,
        body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        Self::run_endless_of(self, |rt| rt, name, args, body)
    }

    /// [`Replay::each_with`] for a runtime inside of another value: `rt` says where it is, and the
    /// body gets that value. The caller sees to it that the body keeps no volatile state.
    /// **Errors**: as there.
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn each_of<T, S: Share>(
        of: &mut T,
        rt: impl Fn(&mut T) -> &mut Self,
        range: Range<u32>,
        args: S,
        body: impl for<'a> FnMut(&mut T, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        rt(of).twins.note(loop_hash::<S>(kind::LOOP, Name::NONE));
        Self::run_loop_of(of, rt, Name::NONE, range, args, body)
    }

    /// [`Replay::forever_with`] in the same way. **Errors**: as there.
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn forever_of<T, S: Share>(
        of: &mut T,
        rt: impl Fn(&mut T) -> &mut Self,
        args: S,
        body: impl for<'a> FnMut(&mut T, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        rt(of).twins.note(loop_hash::<S>(kind::ENDLESS, Name::NONE));
        Self::run_endless_of(of, rt, Name::NONE, args, body)
    }

    #[inline]
    fn run_loop_of<T, S: Share>(
        of: &mut T,
        rt: impl Fn(&mut T) -> &mut Self,
        name: Name,
        range: Range<u32>,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut T, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if range.is_empty() {
            return rt(of).check_running();
        }
        let id = Table::<M>::id(
            loop_hash::<S>(kind::LOOP, name),
            loop_args_hash(&args, range.start, range.end),
        );
        let mut l = Loop::new(id, range.end - range.start);
        rt(of).untyped().enter_loop(&mut l)?;
        if !l.running {
            return Ok(());
        }
        loop {
            // SAFETY: invariant "Sole owner": the loan ends when the body returns. Until then
            // `args` is not used: its hash was taken before the loop, and the next iteration lends
            // it again.
            let shared = unsafe { args.share() };
            let inside = Inside {
                of,
                left: |of| rt(of).untyped().left_iteration(),
            };
            body(inside.of, range.start.wrapping_add(l.iteration), shared)?;
            core::mem::forget(inside);
            if let Some(r) = rt(of).untyped().end_iteration(&mut l) {
                return r;
            }
        }
    }

    #[inline]
    fn run_endless_of<T, S: Share>(
        of: &mut T,
        rt: impl Fn(&mut T) -> &mut Self,
        name: Name,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut T, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        let id = Table::<M>::id(
            loop_hash::<S>(kind::ENDLESS, name),
            loop_args_hash(&args, 0, 0),
        );
        let mut l = Loop::new(id, ENDLESS);
        rt(of).untyped().enter_loop(&mut l)?;
        while l.running {
            // SAFETY: invariant "Sole owner": the loan ends when the body returns. Until then
            // `args` is not used.
            let shared = unsafe { args.share() };
            let inside = Inside {
                of,
                left: |of| rt(of).untyped().left_iteration(),
            };
            body(inside.of, l.iteration, shared)?;
            core::mem::forget(inside);
            if let Some(r) = rt(of).untyped().end_iteration(&mut l) {
                r?;
                break;
            }
        }
        // The record says that an endless loop has ended: it belongs to another loop.
        Err(rt(of).untyped().diverged(Mismatch::Kind))
    }

    /// Stops the runtime: an error or a panic has left its iteration.
    fn left_iteration(&mut self) {
        drop(LoopGuard {
            rt: self,
            reason: Error::LoopInterrupted,
        })
    }

    /// The form of a loop's record.
    const LOOP: RecordShape = RecordShape {
        header: Table::<M>::encode(CallKind::Loop, STATE as u32, true, 0).header,
        min_bytes: Table::<M>::STATE + Table::<M>::UNIT,
        header_only: true,
    };

    // INVARIANT "A loop begins whole": when a loop's record counts, its state is that of the first
    // iteration or a later one.
    // Noticed by: planted `loop-open-before-its-start`, `one-upper-part`, `loop-end-not-marked`.
    /// Enters a loop at its recorded iteration, or records it if the program is past all records.
    /// Passes a loop that has ended: `l.running` is false then.
    #[inline(never)]
    pub(crate) fn enter_loop(&mut self, l: &mut Loop) -> Result<(), Error> {
        if l.count > Table::<M>::COUNTER {
            return self.check_running().and(Err(Error::LoopTooLong));
        }
        if !self.replaying() {
            self.record_loop(l, &Self::LOOP)?;
            // The record was just written from `l`, so there is nothing to read back.
            (l.at, l.payload) = (self.cursor.at, self.cursor.payload);
            self.enter_running(l);
            return Ok(());
        }
        let next = self.next_record();
        let (true, Some(h)) = (self.matches(&next, l.id, true), &next) else {
            return Err(Error::Diverged);
        };
        // The scan at open has checked that this is a valid state.
        let s = self.table.state(h.content);
        self.advance_outlined(h.end);
        (l.at, l.payload) = (self.cursor.at, self.cursor.payload);
        (l.running, l.iteration) = (!s.done, s.counter);
        let beyond = l.running && l.iteration >= l.count && l.count != ENDLESS;
        if beyond && !planted!("nv-replay/iteration-beyond-the-end") {
            return Err(self.diverged(Mismatch::RecordsRemain));
        }
        if l.running {
            self.enter_running(l);
        }
        Ok(())
    }

    #[inline(always)]
    fn enter_running(&mut self, l: &mut Loop) {
        l.region_base = self.table.region.base();
        l.outer = core::mem::replace(&mut self.innermost_loop, l.address());
    }

    /// Ends an iteration. Begins the next one, or ends the loop and returns its result.
    ///
    /// Most iterations end with one store, that of the start word. Checks that change nothing find
    /// the unusual ones, which `end_unusual` handles.
    ///
    /// **Errors**: in the result, that of [`Replay::end_unusual`].
    #[inline(never)]
    pub(crate) fn end_iteration(&mut self, l: &mut Loop) -> Option<Result<(), Error>> {
        let (table, cursor) = (&self.table, &mut self.cursor);
        // A runtime that has stopped is at 0, where no header is.
        let nothing_waits = E::sends_nothing() || self.resend.is_none();
        let nothing_waits = nothing_waits || planted!("nv-replay/turn-offers-nothing");
        let usual = nothing_waits
            && self.innermost_loop == l.address()
            && table.region.base() == l.region_base
            && cursor.at == cursor.end
            && cursor.at != 0;
        let mut done = false;
        let passed = usual
            && self.pool.context().pass_number(|seq| {
                // `pass_number` wraps no number, so the next one is one more. Bits of a header
                // beside its number are not looked at: `end_unusual` decides.
                let iteration = l.iteration.wrapping_add(1);
                if Table::<M>::carries(iteration) {
                    return false;
                }
                let stale = Table::<M>::has_tag(table.load(l.at), seq + 1);
                if stale && !planted!("nv-replay/turn-before-a-stale-header") {
                    return false;
                }
                // A step that was cut may have left a head with this number. The first transaction
                // after an open takes the slow way, but `Replay::view` may have given its number
                // back before.
                let staged = !E::sends_nothing() && table.head_belongs_to(seq);
                if staged && !planted!("nv-replay/turn-before-a-stale-head") {
                    return false;
                }
                l.iteration = iteration;
                // An endless loop's count is 0, which carries.
                done = iteration == l.count;
                let at = l.payload - Table::<M>::STATE;
                table.write_start(at, Loop::bits(seq, done), iteration);
                true
            });
        if !passed {
            return self.end_unusual(l);
        }
        *cursor = l.first();
        if !done {
            return None;
        }
        self.innermost_loop = l.outer;
        Some(Ok(()))
    }

    /// Ends an iteration that the checks of [`Replay::end_iteration`] did not accept.
    ///
    /// **Errors**: in the result: the program has diverged or replaced the runtime, or the runtime
    /// has stopped.
    #[cold]
    #[inline(never)]
    fn end_unusual(&mut self, l: &mut Loop) -> Option<Result<(), Error>> {
        match self.begin_next(l) {
            Ok(()) if l.running => None,
            r => Some(r),
        }
    }

    // INVARIANT "A loop's own runtime": a loop's positions (`Loop::at`, `Loop::payload`) are used
    // only with the runtime that has entered the loop, and only while the loop is that runtime's
    // innermost one. Here and in `end_iteration` `Replay::innermost_loop` and the region's start
    // are compared; DESIGN.md says why that is enough.
    // Noticed by: `a_body_swaps_its_runtime_with_another` and those after it in
    // tests/suite/soundness.rs, under Miri; planted `runtime-not-compared`.
    /// Begins the next iteration, or ends the loop, with all checks.
    ///
    /// **Errors**: those of [`Replay::end_unusual`].
    #[inline(always)]
    fn begin_next(&mut self, l: &mut Loop) -> Result<(), Error> {
        // The body had `&mut` to the runtime, so it can have replaced it (invariant "A loop's own
        // runtime").
        let mine = (self.innermost_loop, self.table.region.base()) == (l.address(), l.region_base);
        if !mine && !planted!("nv-replay/runtime-not-compared") {
            self.check_running()?;
            return Err(self.diverged(Mismatch::Runtime));
        }
        if self.replaying() {
            return Err(self.diverged(Mismatch::RecordsRemain));
        }
        l.pass::<M>();
        if !l.running {
            self.innermost_loop = l.outer;
        }
        // The first header of the ended iteration must not count as the first record of the next
        // one. It carries one number, so one number is skipped at most.
        let seq = self.pool.context().next_seq();
        let stale = self.table.is_successor(l.at, l.payload, seq);
        if stale && !planted!("nv-replay/number-not-skipped") {
            self.pass_number(None)?;
        }
        self.pass_number(Some(l))?;
        self.cursor = l.first();
        if let Some(action) = self.resend
            && !E::sends_nothing()
            && !P::OUTPUT_WAITS
        {
            let seq = 0;
            self.send_saved(seq, action)?;
        }
        Ok(())
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Named<'_, 'm, R, M, E, P>
where
    M::Unit: Width,
{
    /// [`Replay::each`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn each(self, range: Range<u32>, body: LoopBody<'m, R, M, E, P>) -> Result<(), Error> {
        self.rt
            .run_loop(self.name, range, (), |rt, i, ()| body(rt, i))
    }

    /// [`Replay::each_with`] with this name. **Errors**: as there.
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn each_with<S: Share>(
        self,
        range: Range<u32>,
        args: S,
        body: for<'a> fn(&mut Replay<'m, R, M, E, P>, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.rt
            .run_loop(self.name, range, args, |rt, i, a| body(rt, i, a))
    }

    /// [`Replay::forever`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn forever(self, body: LoopBody<'m, R, M, E, P>) -> Result<Infallible, Error> {
        self.rt.run_endless(self.name, (), |rt, i, ()| body(rt, i))
    }

    /// [`Replay::forever_with`] with this name. **Errors**: as there.
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn forever_with<S: Share>(
        self,
        args: S,
        body: for<'a> fn(&mut Replay<'m, R, M, E, P>, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        self.rt
            .run_endless(self.name, args, |rt, i, a| body(rt, i, a))
    }
}

/// A loop that the program has entered.
pub(crate) struct Loop {
    pub id: u32,
    /// The number of iterations, or `ENDLESS`.
    pub count: u32,
    /// The current iteration, from 0.
    pub iteration: u32,
    /// The loop has not ended.
    pub running: bool,
    /// The first header and the first payload of an iteration's records. The loop's state lies just
    /// before `payload`.
    pub at: usize,
    pub payload: usize,
    /// The first byte of the region of the runtime that entered the loop.
    region_base: *mut u8,
    /// The value of [`Replay::innermost_loop`] before the loop was entered.
    pub outer: usize,
}

/// Stops the runtime if the body unwinds, as an error from the body does, or if its future is
/// dropped.
pub(crate) struct LoopGuard<'a, 'm, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>>
where
    M::Unit: Width,
{
    pub rt: &'a mut Replay<'m, R, M, E, P>,
    pub reason: Error,
}
impl<R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Drop for LoopGuard<'_, '_, R, M, E, P>
where
    M::Unit: Width,
{
    fn drop(&mut self) {
        if !planted!("nv-replay/left-iteration-goes-on") {
            self.rt.untyped().stop(self.reason)
        }
    }
}

/// [`LoopGuard`] for a runtime inside of another value: calls `left` if the body is left.
struct Inside<'a, T, F: Fn(&mut T)> {
    of: &'a mut T,
    left: F,
}
impl<T, F: Fn(&mut T)> Drop for Inside<'_, T, F> {
    fn drop(&mut self) {
        (self.left)(self.of)
    }
}

impl Loop {
    #[inline(always)]
    pub fn new(id: u32, count: u32) -> Self {
        Loop {
            id,
            count,
            iteration: 0,
            running: true,
            at: 0,
            payload: 0,
            region_base: core::ptr::null_mut(),
            outer: 0,
        }
    }

    /// The address of this value. No two running loops have the same.
    #[inline(always)]
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Goes on to the next iteration, or to the end.
    #[inline(always)]
    pub fn pass<M: Model>(&mut self) {
        self.iteration = self.iteration.wrapping_add(1) & Table::<M>::COUNTER;
        self.running = self.iteration != self.count || self.count == ENDLESS;
    }

    /// Stores the loop's state at `at`. It counts if the number `seq` does.
    #[inline(always)]
    pub fn write<M: Model>(&self, table: &Table<'_, M>, at: usize, seq: u32) {
        table.write_state(at, Self::bits(seq, !self.running), self.iteration)
    }

    /// Stores the state of the next iteration, or of the end.
    #[inline(always)]
    pub fn write_next<M: Model>(&self, table: &Table<'_, M>, seq: u32) {
        let at = self.payload - Table::<M>::STATE;
        table.write_next_state(at, Self::bits(seq, !self.running), self.iteration)
    }

    /// The position before the first record of an iteration.
    #[inline(always)]
    fn first(&self) -> Cursor {
        Cursor {
            at: self.at,
            end: self.at,
            payload: self.payload,
        }
    }

    #[inline(always)]
    fn bits(seq: u32, done: bool) -> u32 {
        let done = done && !planted!("nv-replay/loop-end-not-marked");
        State::start_bits(seq, done)
    }
}
