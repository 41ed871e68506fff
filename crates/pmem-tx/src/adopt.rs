//! Uses of the walk from the roots in an open pool: adopt recorded handles, reclaim, audit.

use crate::error::{Error, OpenError};
use crate::pbox::Width;
use crate::pool::Pool;
use crate::roots::Roots;
use crate::session;
use crate::state::flag;
use crate::walk::{Audit, Walk};
use nvmem::cross::Ret;
use nvmem::persist::{HandleKind, Visit};
use nvmem::{Invalid, Model, planted};

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Frees the objects that no root leads to and that were not adopted; returns their number.
    /// Does nothing once a transaction has run.
    ///
    /// **Power loss**: the next open frees the others. **Cost**: one store for each object.
    pub fn reclaim(&mut self) -> usize {
        if !self.core.walk_valid.replace(false) || planted!("pmem-tx/no-reclaim") {
            return 0;
        }
        Walk::resume(&self.core).reclaim()
    }

    /// Restores a result that the caller has recorded as bytes. Its handles become
    /// [`Held`](crate::Held) again, checked as at open, and their objects are not reclaimed.
    ///
    /// **Errors**: [`Error::Invalid`] if the bytes are not such a result, or an object already has
    /// an owner; [`Error::WrongPool`] for a result with handles if a transaction has run since the
    /// pool was opened.
    pub fn adopt<O: Ret>(&mut self, bytes: &[u8]) -> Result<O, Error> {
        if O::HANDLES > 0 && !self.core.walk_valid.get() {
            return Err(Error::WrongPool);
        }
        self.adopt_unspent(bytes, &mut |_| false)
    }

    /// Like [`Pool::adopt`], for a result some of whose handles a later record of the caller has
    /// consumed.
    ///
    /// A handle for which `spent` returns true is not checked. It becomes a [`Held`](crate::Held)
    /// of a session that every transaction refuses: a replay can compare it, and nothing else can
    /// be done with it.
    pub fn adopt_unspent<O: Ret>(
        &mut self,
        bytes: &[u8],
        spent: &mut dyn FnMut(u32) -> bool,
    ) -> Result<O, Error> {
        if O::HANDLES > 0 && !self.core.walk_valid.get() {
            return Err(Error::WrongPool);
        }
        if bytes.len() != O::BYTES {
            return Err(Error::Invalid(Invalid::Bits(core::any::type_name::<O>())));
        }
        let session = self.core.session()?;
        let mut w = AdoptVisitor {
            walk: Walk::resume(&self.core),
            spent,
            last_spent: false,
            complete: false,
        };
        // SAFETY: invariant "Sole owner": the walk accepts a handle only if nothing owns its object
        // yet, neither an object of the pool nor a handle of this session; a spent one gets session
        // 0, which no pool has.
        let r = unsafe { O::decode(bytes, session, &mut w) };
        let r = r.and_then(|o| w.walk.check_pending().map(|()| o));
        w.complete = r.is_ok();
        Ok(r?)
    }

    /// Walks from the roots again, as at open. Afterwards results can be adopted and objects
    /// reclaimed, even if transactions have run before.
    ///
    /// A new session begins: every earlier [`Held`](crate::Held) is refused with
    /// [`Error::WrongPool`], because its object may be reclaimed or adopted now. To keep an object,
    /// store its handle in the pool first.
    ///
    /// **Power loss**: only the scratch area changes. **Errors**: something reachable is damaged;
    /// [`OpenError::Unfinished`] if a prepared transaction was forgotten; [`OpenError::Sessions`].
    pub fn walk(&mut self) -> Result<(), OpenError> {
        self.core.walk_valid.set(false);
        for s in self.states.as_ref() {
            if s.is(flag::PREPARED) {
                return Err(OpenError::Unfinished);
            }
            if s.level() > 0 {
                // The stack on which the last one ran was given up without unwinding.
                self.core.rollback(s);
            }
        }
        // Without a session number no handle has left a transaction, so none can be stale.
        if self.core.session.get() != session::NONE && !planted!("pmem-tx/walk-keeps-session") {
            let new = session::next().ok_or(OpenError::Sessions)?;
            self.core.session.set(new);
        }
        let mut w = Walk::resume(&self.core);
        w.begin().map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        self.core.mark_walked(self.states.as_ref());
        Ok(())
    }

    /// Walks from the roots and counts blocks. Objects that a [`Held`](crate::Held) owns count as
    /// unreachable.
    ///
    /// **Power loss**: only the scratch area changes. **Errors**: something reachable is damaged.
    pub fn audit(&mut self) -> Result<Audit, OpenError> {
        self.core.walk_valid.set(false);
        let mut w = Walk::resume(&self.core);
        w.begin().map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        Ok(w.count())
    }
}

/// Shows the handles of a recorded result to the walk, except the spent ones.
struct AdoptVisitor<'a, 'c, 'm, M: Model> {
    walk: Walk<'c, 'm, M>,
    spent: &'a mut dyn FnMut(u32) -> bool,
    last_spent: bool,
    /// The whole result was checked successfully.
    complete: bool,
}

/// A check may fail, or `spent` may unwind, after the first handles of a tuple were claimed. The
/// next walk numbers the types anew, so pending claims must be forgotten.
impl<M: Model> Drop for AdoptVisitor<'_, '_, '_, M> {
    fn drop(&mut self) {
        if !self.complete && !planted!("pmem-tx/pending-kept") {
            self.walk.forget_pending();
        }
    }
}

impl<M: Model> Visit for AdoptVisitor<'_, '_, '_, M> {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        self.last_spent = (self.spent)(value);
        if self.last_spent {
            Ok(())
        } else {
            self.walk.handle(value, found)
        }
    }
    fn session(&mut self, given: u32) -> u32 {
        if self.last_spent { 0 } else { given }
    }
}
