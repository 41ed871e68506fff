//! What the walk from the roots is good for once a pool is open: handles that a caller has recorded, reclaiming, counting.

use crate::error::{Error, OpenError};
use crate::pbox::Width;
use crate::pool::Pool;
use crate::roots::Roots;
use crate::session;
use crate::state::flag;
use crate::walk::{Audit, Walk};
use nvmem::cross::Ret;
use nvmem::persist::{Found, Visit};
use nvmem::{Invalid, Model, planted};

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Frees the objects that no root leads to and that were not adopted; gives their number. Does nothing once a transaction
    /// has run.
    ///
    /// **Power loss**: the rest is freed at the next open. **Cost**: one store an object.
    pub fn reclaim(&mut self) -> usize {
        if !self.core.walk_valid.replace(false) || planted!("pmem-tx/no-reclaim") {
            return 0;
        }
        Walk::resume(&self.core).reclaim()
    }

    /// A result that the caller has recorded as bytes: its handles become [`Held`](crate::Held) again, checked as at open, and their
    /// objects are not reclaimed.
    ///
    /// **Errors**: [`Error::Invalid`] if the bytes are no such result, or an object has an owner already;
    /// [`Error::WrongPool`] when a transaction has run since the pool was opened, for a result with handles.
    pub fn adopt<O: Ret>(&mut self, bytes: &[u8]) -> Result<O, Error> {
        if O::HANDLES > 0 && !self.core.walk_valid.get() {
            return Err(Error::WrongPool);
        }
        self.adopt_unspent(bytes, &mut |_| false)
    }

    /// Like [`Pool::adopt`], for a result of which a later record of the caller has consumed some handles: those for which
    /// `spent` says so are not checked, and become [`Held`](crate::Held) of a session that no transaction accepts. They can be
    /// compared by a replay and nothing else.
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
        // yet, neither an object of the pool nor a handle of this session; a spent one has the
        // session 0, which no pool has.
        let r = unsafe { O::decode(bytes, session, &mut w) };
        let r = r.and_then(|o| w.walk.check_pending().map(|()| o));
        w.complete = r.is_ok();
        Ok(r?)
    }

    /// Walks from the roots again, as when the pool was opened: results can be adopted, and objects reclaimed, even if transactions
    /// have run since.
    ///
    /// A new session begins: a [`Held`](crate::Held) of before is refused with [`Error::WrongPool`], because its object may be
    /// reclaimed or adopted now. Store handles in the pool first, or do without the walk.
    ///
    /// **Power loss**: nothing changes but scratch. **Errors**: what is reachable is damaged; [`OpenError::Unfinished`] when a
    /// prepared transaction was forgotten; [`OpenError::Sessions`].
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
        // As long as there is no number, no handle has left.
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

    /// Walks from the roots and counts. Objects held outside count as unreachable.
    ///
    /// **Power loss**: nothing changes but scratch. **Errors**: what is reachable is damaged.
    pub fn audit(&mut self) -> Result<Audit, OpenError> {
        self.core.walk_valid.set(false);
        let mut w = Walk::resume(&self.core);
        w.begin().map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        Ok(w.count())
    }
}

/// A walk that leaves out spent handles.
struct AdoptVisitor<'a, 'c, 'm, M: Model> {
    walk: Walk<'c, 'm, M>,
    spent: &'a mut dyn FnMut(u32) -> bool,
    last_spent: bool,
    /// The whole result is checked.
    complete: bool,
}

/// Of a tuple the first handle may have been good when the second one is refused, or `spent` unwinds. The next walk numbers the
/// types anew, so what is pending must not stay so.
impl<M: Model> Drop for AdoptVisitor<'_, '_, '_, M> {
    fn drop(&mut self) {
        if !self.complete && !planted!("pmem-tx/pending-kept") {
            self.walk.forget_pending();
        }
    }
}

impl<M: Model> Visit for AdoptVisitor<'_, '_, '_, M> {
    fn handle(&mut self, value: u32, found: &Found) -> Result<(), Invalid> {
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
