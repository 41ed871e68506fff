//! Session numbers: each opening of a pool has one of its own, so that a handle of another is recognised.
//!
//! They are counted in RAM, from every reset anew, and never come round: a handle that was kept for 2^32 openings must not
//! fit again, because what it led to may be of another type by then. When they have run out, opening is refused until the
//! next reset; nothing on the medium knows of them.

use crate::error::OpenError;

/// The last session. What refusals add beyond it is taken away, long before there could be so many at the same time that
/// the number wraps.
#[cfg(target_has_atomic = "32")]
const LAST: u32 = u32::MAX - (1 << 20);

#[cfg(target_has_atomic = "32")]
pub(crate) fn next() -> Result<u32, OpenError> {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NEXT: AtomicU32 = AtomicU32::new(1);
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
