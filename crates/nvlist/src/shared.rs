//! Lists that threads and interrupts share.

use crate::lists::{List, Lists};
use crate::pool::NodePool;
use core::cell::RefCell;
use critical_section::{CriticalSection, Mutex};
use nvmem::{InOrder32, Model, Persist};

/// A node pool in a critical section, for a `static` that threads and interrupts use.
///
/// Operations run one after the other, so each finds links and record complete. The token proves
/// that interrupts are off. A staged operation belongs in the same critical section as the store
/// that commits it.
pub struct Shared<'m, T, const L: usize, M = InOrder32>(Mutex<RefCell<NodePool<'m, T, L, M>>>);

/// The lists are in use: [`Shared::with`] was called inside of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Busy;

impl core::fmt::Display for Busy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the lists are already in use")
    }
}
impl core::error::Error for Busy {}

impl<'m, T: Persist, const L: usize, M: Model> Shared<'m, T, L, M> {
    /// Shares a pool.
    pub fn new(pool: NodePool<'m, T, L, M>) -> Self {
        Shared(Mutex::new(RefCell::new(pool)))
    }

    /// [`NodePool::with`] in a critical section.
    ///
    /// **Errors**: [`Busy`] if it is called inside of itself. **Panics**: never.
    #[inline]
    pub fn with<R, F>(&self, cs: CriticalSection<'_>, body: F) -> Result<R, Busy>
    where
        F: for<'b> FnOnce(Lists<'b, T, M>, [List<'b>; L]) -> R,
    {
        match self.0.borrow(cs).try_borrow_mut() {
            Ok(mut pool) => Ok(pool.with(body)),
            Err(_) => Err(Busy),
        }
    }

    /// Returns the pool.
    pub fn into_inner(self) -> NodePool<'m, T, L, M> {
        self.0.into_inner().into_inner()
    }
}
