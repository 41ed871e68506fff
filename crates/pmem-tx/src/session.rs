//! Session numbers: each opening of a pool has one of its own, so that a handle of another is recognised.

use crate::error::OpenError;

/// The last session: one bit less than the number has.
#[cfg(target_has_atomic = "32")]
const LAST: u32 = u32::MAX / 2;

#[cfg(target_has_atomic = "32")]
pub(crate) fn next() -> Result<u32, OpenError> {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Refuses to wrap: a handle that was kept for 2^32 openings must not fit again. What refusals add is taken away, long
    // before they could add another 2^31.
    let n = NEXT.fetch_add(1, Relaxed);
    if n > LAST {
        NEXT.store(LAST + 1, Relaxed);
        return Err(OpenError::Sessions);
    }
    Ok(n)
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
