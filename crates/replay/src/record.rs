//! Inputs that are read once and recorded.

use crate::error::Error;
use crate::open::Replay;
use crate::site;
use crate::step::Step;
use crate::table::Table;
use core::cell::Cell;
use core::panic::Location;
use nvmem::cross::Ret;
use nvmem::{Model, Persist};
use pmem_tx::{Root, Width};

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Reads an input once and records it: `read` is called once, and every replay returns the
    /// recorded value.
    ///
    /// A step that reads an input itself reads it again if it is executed again after a cut. That
    /// is cheaper, and correct as long as nothing outside of the step has seen the value. `read`
    /// may capture, for example a driver; a bypass does not repeat its effects on volatile state.
    ///
    /// **Power loss**: the value is recorded, or the input is read again. **Cost**: that of a step
    /// with this result. **Errors**: [`Error::TableFull`], [`Error::Diverged`].
    #[track_caller]
    #[inline(always)]
    pub fn record_with<O>(&mut self, read: impl FnOnce() -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let id = Table::<M>::id(site::site(Location::caller()), 0);
        let read = Cell::new(Some(read));
        let body = |_: &Step<'_, '_, M>, _: &mut Root<'_, R::At<'_>, M::Unit>, ()| {
            read.take().map(|read| read()).ok_or(Error::Other)
        };
        Ok(self.call::<(), O, _>(id, (), body)?)
    }

    /// Like [`Replay::record_with`], for a value that was already read. Returns the recorded value.
    #[track_caller]
    #[inline(always)]
    pub fn record<O>(&mut self, value: O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.record_with(|| value)
    }
}
