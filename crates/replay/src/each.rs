//! Loops: a persistent counter, and the records of one iteration at a time.

use crate::error::{Error, Mismatch};
use crate::execute::RecordShape;
use crate::header::CallKind;
use crate::layout::STATE;
use crate::open::Replay;
use crate::site;
use crate::table::{State, Table};
use core::convert::Infallible;
use core::ops::Range;
use core::panic::Location;
use nvmem::cross::Share;
use nvmem::{Model, Persist, planted};
use pmem_tx::Width;

/// The length of a loop that does not end: no other has it, because an empty one is not entered.
const ENDLESS: u32 = 0;

/// The body of a loop without arguments: a function pointer, so that no volatile state goes from one iteration to the next.
pub type LoopBody<'m, R, M> = fn(&mut Replay<'m, R, M>, u32) -> Result<(), Error>;

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Runs `body` for each number of the range. After a cut it goes on in the iteration that was cut: those before are
    /// neither run nor bypassed, and their records take no room.
    ///
    /// The body is a function pointer: what one iteration leaves to the next is in persistent objects. An error that leaves
    /// the body leaves the loop in this iteration, and nothing can follow in this life; handle it inside to go on.
    ///
    /// **Power loss**: an iteration has ended, or is continued behind its last record. **Cost**: one store to begin an
    /// iteration, two more in 32,768 of them (in 128 on 16-bit units); two stores or three to open the loop, one to end it.
    /// **Errors**: those of the body, [`Error::TableFull`], [`Error::LoopTooLong`]; [`Error::Diverged`] when the body has put another
    /// runtime in the place of its own.
    #[track_caller]
    #[inline(always)]
    pub fn each(&mut self, range: Range<u32>, body: LoopBody<'m, R, M>) -> Result<(), Error> {
        let site = site::site(Location::caller());
        self.run_loop(site, range, (), |rt, i, ()| body(rt, i))
    }

    /// Like [`Replay::each`], with arguments that every iteration is given anew: plain values, `&mut held` for a handle that is
    /// lent, and tuples of them.
    #[track_caller]
    #[inline(always)]
    pub fn each_with<S: Share>(
        &mut self,
        range: Range<u32>,
        args: S,
        body: for<'a> fn(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let site = site::site(Location::caller());
        self.run_loop(site, range, args, |rt, i, a| body(rt, i, a))
    }

    /// Like [`Replay::each_with`], told apart from other loops by a number instead of its place in the source: it may move.
    pub fn each_at<S: Share>(
        &mut self,
        id: u32,
        range: Range<u32>,
        args: S,
        body: for<'a> fn(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let site = site::Hash::new().word(id).finish();
        self.run_loop(site, range, args, |rt, i, a| body(rt, i, a))
    }

    /// Runs `body` again and again; the super-loop. Its number wraps, after 2^23 iterations on 16-bit units. Costs as
    /// [`Replay::each`]. Ends with an error only.
    #[track_caller]
    #[inline(always)]
    pub fn forever(&mut self, body: LoopBody<'m, R, M>) -> Result<Infallible, Error> {
        let site = site::site(Location::caller());
        self.run_endless(site, (), |rt, i, ()| body(rt, i))
    }

    /// Like [`Replay::forever`], with arguments as [`Replay::each_with`].
    #[track_caller]
    #[inline(always)]
    pub fn forever_with<S: Share>(
        &mut self,
        args: S,
        body: for<'a> fn(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        let site = site::site(Location::caller());
        self.run_endless(site, args, |rt, i, a| body(rt, i, a))
    }

    #[inline]
    fn run_loop<S: Share>(
        &mut self,
        site: u32,
        range: Range<u32>,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if range.is_empty() {
            return self.check_running();
        }
        let args_hash = site::loop_args_hash(&args, range.start, range.end);
        let mut l = Loop::new(Table::<M>::id(site, args_hash), range.end - range.start);
        self.enter_loop(&mut l)?;
        while l.running {
            // SAFETY: invariant "Sole owner": the loan ends with the body, and `args` is not used before it has: for the hash before, for
            // the next iteration after.
            let shared = unsafe { args.share() };
            let inside = LoopGuard(self);
            let r = body(inside.0, range.start.wrapping_add(l.iteration), shared);
            core::mem::forget(inside);
            self.end_iteration(&mut l, r)?;
        }
        Ok(())
    }

    #[inline]
    fn run_endless<S: Share>(
        &mut self,
        site: u32,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        let mut l = Loop::new(
            Table::<M>::id(site, site::loop_args_hash(&args, 0, 0)),
            ENDLESS,
        );
        self.enter_loop(&mut l)?;
        while l.running {
            // SAFETY: invariant "Sole owner": the loan ends with the body, and `args` is not used before it has.
            let shared = unsafe { args.share() };
            let inside = LoopGuard(self);
            let r = body(inside.0, l.iteration, shared);
            core::mem::forget(inside);
            self.end_iteration(&mut l, r)?;
        }
        // A record says that it has ended.
        Err(self.diverged(Mismatch::Kind))
    }

    /// The record of a loop.
    const LOOP: RecordShape = RecordShape {
        header: Table::<M>::encode(CallKind::Loop, STATE as u32, true, 0).header,
        min_bytes: Table::<M>::STATE + Table::<M>::UNIT,
        header_only: true,
    };

    /// Goes into a loop, opens it, or passes it, and says in which iteration it is.
    #[inline(never)]
    fn enter_loop(&mut self, l: &mut Loop) -> Result<(), Error> {
        if l.count > Table::<M>::COUNTER {
            return self.check_running().and(Err(Error::LoopTooLong));
        }
        if !self.replaying() {
            self.commit(l.id, &Self::LOOP, None, Some(l), None)?;
        }
        let Some(h) = self.match_next(l.id, true) else {
            return Err(Error::Diverged);
        };
        // ScanResult to be one when the table was opened.
        let s = self.table.state(h.content);
        self.advance_outlined(h.end);
        (l.at, l.payload) = (self.cursor.at, self.cursor.payload);
        (l.running, l.iteration) = (!s.done, s.counter);
        if l.running
            && l.iteration >= l.count
            && l.count != ENDLESS
            && !planted!("nv-replay/iteration-beyond-the-end")
        {
            return Err(self.diverged(Mismatch::RecordsRemain));
        }
        if l.running {
            l.region_base = self.table.region.base();
            l.outer = core::mem::replace(&mut self.innermost_loop, l.address());
        }
        Ok(())
    }

    /// Ends an iteration that has given `r`, and begins the next one, if it was not the last.
    #[inline(never)]
    fn end_iteration(&mut self, l: &mut Loop, r: Result<(), Error>) -> Result<(), Error> {
        if let Err(e) = r {
            // It may have left a loop inside of this one, or come from a divergence.
            self.stop(Error::LoopInterrupted);
            return Err(e);
        }
        // The body had `&mut` to the runtime: it can have put another one in its place (invariant "A loop's own runtime").
        if (self.innermost_loop, self.table.region.base()) != (l.address(), l.region_base)
            && !planted!("nv-replay/runtime-not-compared")
        {
            self.check_running()?;
            return Err(self.diverged(Mismatch::Runtime));
        }
        if self.replaying() {
            return Err(self.diverged(Mismatch::RecordsRemain));
        }
        l.iteration = l.iteration.wrapping_add(1) & Table::<M>::COUNTER;
        l.running = l.iteration != l.count || l.count == ENDLESS;
        if !l.running {
            self.innermost_loop = l.outer;
        }
        loop {
            // What the iteration has recorded first must not be taken for the first record of the next one.
            let seq = self.pool.context().next_seq();
            let skip = self.table.is_successor(l.at, l.payload, seq)
                && !planted!("nv-replay/number-not-skipped");
            self.commit(0, &RecordShape::NONE, None, (!skip).then_some(&*l), None)?;
            if !skip {
                return Ok(());
            }
        }
    }
}

/// A loop that the program is in.
pub(crate) struct Loop {
    id: u32,
    /// How many iterations.
    count: u32,
    /// Which one.
    iteration: u32,
    /// It has not ended.
    running: bool,
    /// Where its records begin: the header, and the payload, before which its state is.
    pub at: usize,
    pub payload: usize,
    /// Where the region of its runtime begins.
    region_base: *mut u8,
    /// What [`Replay::innermost_loop`] was before.
    outer: usize,
}

/// A body that unwinds leaves its loop as one that ends with an error.
struct LoopGuard<'a, 'm, R: Persist, M: Model>(&'a mut Replay<'m, R, M>)
where
    M::Unit: Width;
impl<R: Persist, M: Model> Drop for LoopGuard<'_, '_, R, M>
where
    M::Unit: Width,
{
    fn drop(&mut self) {
        self.0.stop(Error::LoopInterrupted)
    }
}

impl Loop {
    #[inline(always)]
    fn new(id: u32, count: u32) -> Self {
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

    /// Its address: no two loops that run have the same.
    #[inline(always)]
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Stores its state, which counts with this number, at `at`.
    #[inline(always)]
    pub fn write<M: Model>(&self, table: &Table<'_, M>, at: usize, seq: u32) {
        let done = !self.running && !planted!("nv-replay/loop-end-not-marked");
        table.write_state(at, State::start_bits(seq, done), self.iteration)
    }
}
