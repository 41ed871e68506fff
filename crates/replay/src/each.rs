//! Loops: a persistent counter, and the records of one iteration at a time.

use crate::error::{Error, What};
use crate::header::{Check, Kind};
use crate::open::Replay;
use crate::site;
use core::convert::Infallible;
use core::ops::Range;
use core::panic::Location;
use nvmem::cross::Share;
use nvmem::{Model, Persist};
use pmem_tx::Width;

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
    pub fn each(&mut self, range: Range<u32>, body: Iteration<'m, R, M>) -> Result<(), Error> {
        let site = site::site(Location::caller());
        self.looping(site, range, (), |rt, i, ()| body(rt, i))
    }

    /// Like [`Replay::each`], with arguments that every iteration is given anew: plain values, `&mut held` for a handle that is
    /// lent, and tuples of them.
    #[track_caller]
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
    pub fn forever(&mut self, body: Iteration<'m, R, M>) -> Result<Infallible, Error> {
        let site = site::site(Location::caller());
        self.endless(site, (), |rt, i, ()| body(rt, i))
    }

    /// Like [`Replay::forever`], with arguments as [`Replay::each_with`].
    #[track_caller]
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
        self.going()?;
        if range.is_empty() {
            return Ok(());
        }
        let (check, n) = (
            Check {
                site,
                args: site::shared(&args, range.start, range.end),
            },
            range.end - range.start,
        );
        let limit = self.table.geo.most_iterations();
        if n > limit {
            return Err(Error::LoopTooLong { limit });
        }
        if self.enter(check)? {
            return Ok(());
        }
        loop {
            let i = self.frames[self.level].counter;
            if i >= n {
                return Err(self.diverged(What::Shorter));
            }
            // SAFETY: `args` is used for the hash before and for the next iteration after this one.
            let shared = unsafe { args.share() };
            self.iteration(|rt| body(rt, range.start + i, shared))?;
            if i + 1 == n {
                return self.leave(check);
            }
            self.advance()?;
        }
    }

    fn endless<S: Share>(
        &mut self,
        site: u32,
        mut args: S,
        mut body: impl for<'a> FnMut(&mut Self, u32, S::In<'a>) -> Result<(), Error>,
    ) -> Result<Infallible, Error> {
        self.going()?;
        let check = Check {
            site,
            args: site::shared(&args, 0, 0),
        };
        if self.enter(check)? {
            return Err(self.diverged(What::Kind));
        }
        loop {
            let i = self.frames[self.level].counter;
            // SAFETY: as in `looping`.
            let shared = unsafe { args.share() };
            self.iteration(|rt| body(rt, i, shared))?;
            self.advance()?;
        }
    }

    /// Goes into a loop, opens it, or passes it; then it is done.
    fn enter(&mut self, check: Check) -> Result<bool, Error> {
        let f = self.frames[self.level];
        if !f.replaying() {
            return self.open_loop(check).map(|()| false);
        }
        let t = &self.table;
        let Some(h) = t.record(self.level, f.half, f.next, f.next_units) else {
            return Err(self.diverged(What::Kind));
        };
        let same = t.geo.agrees(&h, check);
        match (h.kind, same) {
            (Kind::LoopOpen | Kind::LoopDone, (false, _)) => Err(self.diverged(What::Site)),
            (Kind::LoopOpen | Kind::LoopDone, (_, false)) => Err(self.diverged(What::Arguments)),
            (Kind::LoopDone, _) => {
                self.pass(h.total());
                Ok(true)
            }
            (Kind::LoopOpen, _) => {
                let f = &mut self.frames[self.level];
                (f.next, f.next_units) = (f.end, f.end_units);
                self.level += 1;
                self.check_live();
                Ok(false)
            }
            _ => Err(self.diverged(What::Kind)),
        }
    }

    fn open_loop(&mut self, check: Check) -> Result<(), Error> {
        let level = self.level;
        let limit = self.table.geo.levels - 1;
        if level as u32 == limit {
            return Err(Error::LoopsTooDeep { limit: limit as u8 });
        }
        // It must fit before a number is used.
        self.table
            .fits(level, &self.frames[level], self.table.units_for(1, 0))?;
        self.pass_number()?;
        let f = &mut self.frames[level];
        let inner = self.table.open_loop(level, f, check)?;
        self.level += 1;
        self.depth = self.level;
        self.frames[self.level] = inner;
        Ok(())
    }

    /// Runs an iteration to its end.
    fn iteration(&mut self, run: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let level = self.level;
        let r = run(self);
        if let Err(e) = r {
            // It may have left a loop inside of this one, or come from a divergence.
            self.stopped.get_or_insert(Error::LoopLeft);
            return Err(e);
        }
        self.going()?;
        debug_assert_eq!(level, self.level);
        if self.frames[level].replaying() {
            return Err(self.diverged(What::Shorter));
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.pass_number()?;
        let f = &mut self.frames[self.level];
        self.table.advance(self.level, f, 0);
        Ok(())
    }

    fn leave(&mut self, check: Check) -> Result<(), Error> {
        let reached = self.frames[self.level].seq;
        self.level -= 1;
        self.depth = self.level;
        let f = &mut self.frames[self.level];
        self.table.close_loop(self.level, f, reached, check);
        Ok(())
    }
}
