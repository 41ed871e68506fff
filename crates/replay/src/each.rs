//! Loops: a persistent counter, and the records of one iteration at a time.

use crate::error::{Error, What};
use crate::execute::Shape;
use crate::header::Kind;
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
pub type Iteration<'m, R, M> = fn(&mut Replay<'m, R, M>, u32) -> Result<(), Error>;

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
    pub fn each(&mut self, range: Range<u32>, body: Iteration<'m, R, M>) -> Result<(), Error> {
        let site = site::site(Location::caller());
        self.looping(site, range, (), |rt, i, ()| body(rt, i))
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
        self.looping(site, range, args, |rt, i, a| body(rt, i, a))
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
        self.looping(site, range, args, |rt, i, a| body(rt, i, a))
    }

    /// Runs `body` again and again; the super-loop. Its number wraps, after 2^23 iterations on 16-bit units. Costs as
    /// [`Replay::each`]. Ends with an error only.
    #[track_caller]
    #[inline(always)]
    pub fn forever(&mut self, body: Iteration<'m, R, M>) -> Result<Infallible, Error> {
        let site = site::site(Location::caller());
        self.endless(site, (), |rt, i, ()| body(rt, i))
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
        self.endless(site, args, |rt, i, a| body(rt, i, a))
    }

    #[inline]
    fn looping<S: Share>(
        &mut self,
        site: u32,
        range: Range<u32>,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if range.is_empty() {
            return self.going();
        }
        let args_hash = site::shared(&args, range.start, range.end);
        let mut l = Loop::new(Table::<M>::id(site, args_hash), range.end - range.start);
        self.enter(&mut l)?;
        while l.runs {
            // SAFETY: invariant "Sole owner": the loan ends with the body, and `args` is not used before it has: for the hash before, for
            // the next iteration after.
            let shared = unsafe { args.share() };
            let inside = Inside(self);
            let r = body(inside.0, range.start.wrapping_add(l.i), shared);
            core::mem::forget(inside);
            self.turn(&mut l, r)?;
        }
        Ok(())
    }

    #[inline]
    fn endless<S: Share>(
        &mut self,
        site: u32,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        let mut l = Loop::new(Table::<M>::id(site, site::shared(&args, 0, 0)), ENDLESS);
        self.enter(&mut l)?;
        while l.runs {
            // SAFETY: invariant "Sole owner": the loan ends with the body, and `args` is not used before it has.
            let shared = unsafe { args.share() };
            let inside = Inside(self);
            let r = body(inside.0, l.i, shared);
            core::mem::forget(inside);
            self.turn(&mut l, r)?;
        }
        // A record says that it has ended.
        Err(self.diverged(What::Kind))
    }

    /// The record of a loop.
    const LOOP: Shape = Shape {
        header: Table::<M>::encode(Kind::Loop, STATE as u32, true, 0).header,
        room: Table::<M>::STATE + Table::<M>::UNIT,
        simple: true,
    };

    /// Goes into a loop, opens it, or passes it, and says in which iteration it is.
    #[inline(never)]
    fn enter(&mut self, l: &mut Loop) -> Result<(), Error> {
        if l.n > Table::<M>::COUNTER {
            return self.going().and(Err(Error::LoopTooLong));
        }
        if !self.replaying() {
            self.commit(l.id, &Self::LOOP, None, Some(l), None)?;
        }
        let Some(h) = self.next_record(l.id, true) else {
            return Err(Error::Diverged);
        };
        // Found to be one when the table was opened.
        let s = self.table.state(h.content);
        self.passed(h.end);
        (l.at, l.body) = (self.cur.at, self.cur.body);
        (l.runs, l.i) = (!s.done, s.counter);
        if l.runs && l.i >= l.n && l.n != ENDLESS && !planted!("nv-replay/iteration-beyond-the-end")
        {
            return Err(self.diverged(What::Shorter));
        }
        if l.runs {
            l.base = self.table.region.base();
            l.outer = core::mem::replace(&mut self.inner, l.place());
        }
        Ok(())
    }

    /// Ends an iteration that has given `r`, and begins the next one, if it was not the last.
    #[inline(never)]
    fn turn(&mut self, l: &mut Loop, r: Result<(), Error>) -> Result<(), Error> {
        if let Err(e) = r {
            // It may have left a loop inside of this one, or come from a divergence.
            self.stop(Error::LoopLeft);
            return Err(e);
        }
        // The body had `&mut` to the runtime: it can have put another one in its place (invariant "A loop's own runtime").
        if (self.inner, self.table.region.base()) != (l.place(), l.base)
            && !planted!("nv-replay/runtime-not-compared")
        {
            self.going()?;
            return Err(self.diverged(What::Runtime));
        }
        if self.replaying() {
            return Err(self.diverged(What::Shorter));
        }
        l.i = l.i.wrapping_add(1) & Table::<M>::COUNTER;
        l.runs = l.i != l.n || l.n == ENDLESS;
        if !l.runs {
            self.inner = l.outer;
        }
        loop {
            // What the iteration has recorded first must not be taken for the first record of the next one.
            let seq = self.pool.context().next_seq();
            let skip =
                self.table.follows(l.at, l.body, seq) && !planted!("nv-replay/number-not-skipped");
            self.commit(0, &Shape::NONE, None, (!skip).then_some(&*l), None)?;
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
    n: u32,
    /// Which one.
    i: u32,
    /// It has not ended.
    runs: bool,
    /// Where its records begin: the header, and the payload, before which its state is.
    pub at: usize,
    pub body: usize,
    /// Where the region of its runtime begins.
    base: *mut u8,
    /// What [`Replay::inner`] was before.
    outer: usize,
}

/// A body that unwinds leaves its loop as one that ends with an error.
struct Inside<'a, 'm, R: Persist, M: Model>(&'a mut Replay<'m, R, M>)
where
    M::Unit: Width;
impl<R: Persist, M: Model> Drop for Inside<'_, '_, R, M>
where
    M::Unit: Width,
{
    fn drop(&mut self) {
        self.0.stop(Error::LoopLeft)
    }
}

impl Loop {
    #[inline(always)]
    fn new(id: u32, n: u32) -> Self {
        Loop {
            id,
            n,
            i: 0,
            runs: true,
            at: 0,
            body: 0,
            base: core::ptr::null_mut(),
            outer: 0,
        }
    }

    /// Its address: no two loops that run have the same.
    #[inline(always)]
    fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Stores its state, which counts with this number, at `at`.
    #[inline(always)]
    pub fn put<M: Model>(&self, table: &Table<'_, M>, at: usize, seq: u32) {
        let done = !self.runs && !planted!("nv-replay/loop-end-not-marked");
        table.put_state(at, State::mark(seq, done), self.i)
    }
}
