//! Read access to persistent objects between two steps.

use crate::error::Error;
use crate::open::Replay;
use nvmem::{Model, Persist};
use pmem_tx::{Root, Tx, Width};

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Calls `f` with the persistent objects, for a display, a shell or a report. Returns `None`
    /// during the replay, when the objects are ahead of the program.
    ///
    /// Nothing is recorded, so the program must not take another path because of what it reads
    /// here; a step reads its data itself. **Power loss**: nothing changes. **Cost**: 0 stores.
    /// **Errors**: [`Error::Diverged`] and [`Error::LoopInterrupted`], if the runtime has stopped.
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
        // Abandon the transaction: not even an allocation of `f` remains.
        prepared.map_err(|f| Error::from(f.error))?.abandon();
        Ok(seen)
    }
}
