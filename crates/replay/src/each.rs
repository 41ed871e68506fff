//! Loops: a persistent counter, and the records of one iteration at a time.

use crate::error::{Error, What};
use crate::header::{Check, Kind};
use crate::open::Replay;
use crate::site;
use crate::table::Table;
use core::convert::Infallible;
use core::ops::Range;
use core::panic::Location;
use nvmem::cross::Share;
use nvmem::{Model, Persist};
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
    /// iteration, two more in 65,536 of them (in 256 on 16-bit units); three stores or four to open the loop, two or three
    /// to end it. **Errors**: those of the body, [`Error::TableFull`], [`Error::LoopsTooDeep`], [`Error::LoopTooLong`].
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

    /// Runs `body` again and again; the super-loop. Its number wraps, after 2^24 iterations on 16-bit units. Costs as
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
        let check = Check {
            site,
            args: site::shared(&args, range.start, range.end),
        };
        let n = range.end - range.start;
        let mut i = self.enter(check, n)?;
        while let Some(at) = i {
            // SAFETY: `args` is used for the hash before and for the next iteration after this one.
            let shared = unsafe { args.share() };
            let r = body(self, range.start.wrapping_add(at), shared);
            i = self.turn(check, n, r)?;
        }
        Ok(())
    }

    fn endless<S: Share>(
        &mut self,
        site: u32,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        let check = Check {
            site,
            args: site::shared(&args, 0, 0),
        };
        let mut i = self.enter(check, ENDLESS)?;
        while let Some(at) = i {
            // SAFETY: as in `looping`.
            let shared = unsafe { args.share() };
            let r = body(self, at, shared);
            i = self.turn(check, ENDLESS, r)?;
        }
        // A record says that it has ended.
        Err(self.diverged(What::Kind))
    }

    /// Goes into a loop of `n` iterations, opens it, or passes it; gives the iteration to go on with, none if it is done.
    #[inline(never)]
    fn enter(&mut self, check: Check, n: u32) -> Result<Option<u32>, Error> {
        self.going()?;
        if n > Table::<M>::MOST_ITERATIONS {
            return Err(Error::LoopTooLong {
                limit: Table::<M>::MOST_ITERATIONS,
            });
        }
        if !self.cur.replaying() {
            return self.open_loop(check);
        }
        let h = self.next_record(check, true)?;
        if h.kind == Kind::LoopOpen {
            self.go_to(self.level + 1)?;
            self.check_live();
            return self.iteration(n);
        }
        if n == ENDLESS {
            return Err(self.diverged(What::Kind));
        }
        self.pass(h.total() as usize * Table::<M>::UNIT);
        Ok(None)
    }

    fn open_loop(&mut self, check: Check) -> Result<Option<u32>, Error> {
        let level = self.level;
        let limit = self.table.geo.levels - 1;
        if level == limit {
            return Err(Error::LoopsTooDeep { limit: limit as u8 });
        }
        // It, and the record of its end, must fit before a number is used.
        self.table.fits(&self.cur, Table::<M>::takes(1))?;
        self.pass_number()?;
        self.table.open_loop(level, &mut self.cur, check);
        self.level += 1;
        self.depth = self.level;
        Ok(Some(0))
    }

    /// The iteration that the program is in, of `n`.
    fn iteration(&mut self, n: u32) -> Result<Option<u32>, Error> {
        let i = self.cur.counter;
        if i >= n && n != ENDLESS {
            return Err(self.diverged(What::Shorter));
        }
        Ok(Some(i))
    }

    /// Ends an iteration that has given `r`; gives the next one, none if it was the last.
    #[inline(never)]
    fn turn(&mut self, check: Check, n: u32, r: Result<(), Error>) -> Result<Option<u32>, Error> {
        if let Err(e) = r {
            // It may have left a loop inside of this one, or come from a divergence.
            self.stop(Error::LoopLeft);
            return Err(e);
        }
        self.going()?;
        if self.cur.replaying() {
            return Err(self.diverged(What::Shorter));
        }
        if self.cur.counter.wrapping_add(1) == n && n != ENDLESS {
            let reached = self.cur.seq;
            self.go_to(self.level - 1)?;
            self.depth = self.level;
            self.table.close_loop(&mut self.cur, reached, check);
            return Ok(None);
        }
        self.pass_number()?;
        self.table.advance(&mut self.cur);
        self.iteration(n)
    }

    /// The frame of this level is the current one, as it is on the medium.
    fn go_to(&mut self, level: usize) -> Result<(), Error> {
        // All that runs was read when the table was opened, or written since.
        if self.table.frame(level, &mut self.cur).is_err() {
            return Err(Error::Other);
        }
        self.level = level;
        Ok(())
    }
}
