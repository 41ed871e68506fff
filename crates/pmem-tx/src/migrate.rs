//! Migration: changes the types of a pool and keeps its content.
//!
//! ```text
//!  1  one transaction makes the new root from the old one; it is prepared, not committed
//!  2  superblock := new fingerprint, MIGRATED = the transaction's number    <- commits both
//!  3  commit word := that number
//!  4  superblock := MIGRATED = 0
//! ```
//!
//! A cut before step 2 leaves the old pool: the open with the old types undoes the transaction. A
//! cut after it leaves the new pool: `finish_migration` does steps 3 and 4 again at every open
//! until `MIGRATED` is 0. The superblock is replaced atomically, so types and content never
//! disagree.

use crate::config::{self, Config, param};
use crate::error::{Component, Error, OpenError, OpenFailure};
use crate::pbox::{PBox, Width};
use crate::pool::Pool;
use crate::roots::Roots;
use crate::tx::Tx;
use nvmem::superblock::{self, State};
use nvmem::{Model, Persist, Region, Superblock, Unit, mapped};

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Finishes a committed migration: enters its number in the commit word, then clears it in the
    /// superblock. May be repeated.
    pub(crate) fn finish_migration(core: &mut crate::state::Core<'m, M>, stored: &mut Superblock) {
        let seq = stored.params[param::MIGRATED] as usize;
        if seq == 0 {
            return;
        }
        // SAFETY: invariant "Headers are never content": the first context's commit word.
        unsafe { core.store(core.geo.word(0, M::Unit::BYTES), seq) }
        // A value that is not a sequence number is refused later, when the commit words are
        // checked.
        if !nvmem::planted!("pmem-tx/migration-never-entered") {
            stored.params[param::MIGRATED] = 0;
        }
        superblock::replace(&mut core.region, stored);
    }
}

impl<'m, R: Persist, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Like [`Pool::open_with`], and converts a pool whose root is an `Old` to one whose root is an
    /// `R`. `change` gets the old root by value and returns the new one. It converts handles in the
    /// root one by one: `into_inner`, then `PBox::new`.
    ///
    /// **Power loss**: the old pool or the new one, never a mixture; the next `migrate` continues.
    /// **Cost**: one transaction, so the journal limits it, and two superblocks. **Errors**: those
    /// of [`Pool::open`], and an error of `change` as [`OpenError::Init`]; then the old pool is
    /// unchanged.
    pub fn migrate<Old: Persist, F, G>(
        region: Region<'m, M>,
        config: &Config,
        init: F,
        change: G,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::At<'p>, Error>,
        G: for<'p> FnOnce(&Tx<'p, M>, Old::At<'p>) -> Result<R::At<'p>, Error>,
    {
        let mine = config::superblock::<M>(config, 1, region.len(), 0);
        let old = match superblock::probe(&region, &mine) {
            State::Ready(sb) => sb.fingerprint == nvmem::fingerprint::<Old>(),
            _ => false,
        };
        if !old {
            return Self::open_with(region, config, init);
        }
        let mut pool = Pool::<Old, M>::open_with(region, config, |_| Err(Error::WrongPool))?;
        let r = pool.change_root::<R, G>(change);
        let region = pool.close();
        match r {
            Ok(()) => Self::open_with(region, config, init),
            Err(e) => Err(OpenFailure { error: e, region }),
        }
    }

    fn change_root<New: Persist, G>(&mut self, change: G) -> Result<(), OpenError>
    where
        G: for<'p> FnOnce(&Tx<'p, M>, R::At<'p>) -> Result<New::At<'p>, Error>,
    {
        let fingerprint = nvmem::fingerprint::<New>();
        let unit = M::Unit::BYTES;
        let at = self.core_and_states().0.geo.root(0, unit);
        let stored = match superblock::probe(
            &self.core_and_states().0.region,
            &config::superblock::<M>(&Config::DEFAULT, 1, 0, 0),
        ) {
            State::Ready(sb) => sb,
            _ => return Err(OpenError::Damaged(Component::Superblock)),
        };
        let mut context = self.context();
        let base = context.core.region.base();
        let p = context
            .prepare_resolved::<(), (), _>((), |tx, root, ()| {
                // The table owns the old root; its handle is overwritten with the new one below.
                let old =
                    PBox::<R::At<'_>, M::Unit>::from_offset(root.0.offset()).into_inner(tx)?;
                let new = PBox::new(change(tx, old)?, tx)?;
                tx.core.log(tx.s, at, at + unit)?;
                mapped::end_loan(tx.core.at(at), unit);
                // SAFETY: invariant "Headers are never content": the root word is a unit of the
                // table, never lent.
                unsafe { tx.core.store(at, <M::Unit as Width>::value(new.offset())) }
                Ok(())
            })
            .map_err(|f| OpenError::Init(f.error))?;
        let mut new = stored;
        new.fingerprint = fingerprint;
        new.params[param::MIGRATED] = p.seq();
        // SAFETY: invariant "Sole region": the superblock's bytes, which nothing else uses while
        // the pool is borrowed here.
        let head = unsafe { Region::<M>::from_raw(base, base.add(Superblock::BYTES)) };
        if let Ok(mut head) = head {
            superblock::replace(&mut head, &new);
            p.committed();
        }
        Ok(())
    }
}
