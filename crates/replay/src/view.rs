//! A look at persistent objects between two steps.

use crate::error::Error;
use crate::open::Replay;
use nvmem::{Model, Persist};
use pmem_tx::{Root, Tx, Width};

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Shows the persistent objects to a display, a shell or a report. `None` while the program is bypassing what it has
    /// done: the objects are ahead of it then.
    ///
    /// Nothing is recorded, so the program must not go another way for what it sees; what a step needs it reads itself.
    /// **Power loss**: nothing changes. **Cost**: 0 stores. **Errors**: [`Error::Diverged`] and [`Error::LoopInterrupted`], when the
    /// program has ended so.
    pub fn view<O>(
        &mut self,
        f: impl for<'p> FnOnce(&Tx<'p, M>, &Root<'p, R::At<'p>, M::Unit>) -> O,
    ) -> Result<Option<O>, Error> {
        self.check_running()?;
        if !self.is_live() {
            return Ok(None);
        }
        let (mut f, mut seen) = (Some(f), None);
        let mut context = self.pool.context();
        let prepared = context.prepare::<(), (), _>((), |tx, root, ()| {
            seen = f.take().map(|f| f(tx, root));
            Ok(())
        });
        // Undone: even an allocation would leave nothing.
        prepared.map_err(|f| Error::from(f.error))?.abandon();
        Ok(seen)
    }
}
