//! Inputs that are pinned.

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
    /// Pins an input: `read` is called once, and its value is recorded at once and returned ever after.
    ///
    /// An input that a step reads by itself is read again when the step is executed again after a cut, which is cheaper and
    /// right whenever nothing outside of the step has seen it. `read` may capture, a driver for instance; what it does to
    /// volatile things is not done when it is bypassed.
    ///
    /// **Power loss**: the value is recorded, or will be read again. **Cost**: that of a step with this result.
    /// **Errors**: [`Error::TableFull`], [`Error::Diverged`].
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

    /// Like [`Replay::record_with`], for a value that was read already: the one that was recorded comes back.
    #[track_caller]
    #[inline(always)]
    pub fn record<O>(&mut self, value: O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.record_with(|| value)
    }
}
