//! Session numbers: each opening of a pool has one of its own, so that a handle of another is recognised.

use crate::error::OpenError;

#[cfg(target_has_atomic = "32")]
pub(crate) fn next() -> Result<u32, OpenError> {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Refuses to wrap: a handle that was kept for 2^32 openings must not fit again.
    NEXT.fetch_update(Relaxed, Relaxed, |n| n.checked_add(1))
        .map_err(|_| OpenError::Sessions)
}

#[cfg(not(target_has_atomic = "32"))]
pub(crate) fn next() -> Result<u32, OpenError> {
    use core::cell::Cell;
    use critical_section::{Mutex, with};
    static NEXT: Mutex<Cell<u32>> = Mutex::new(Cell::new(1));
    with(|cs| {
        let c = NEXT.borrow(cs);
        let n = c.get();
        c.set(n.checked_add(1).ok_or(OpenError::Sessions)?);
        Ok(n)
    })
}
