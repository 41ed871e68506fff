//! Session numbers: an opening of a pool whose handles go outside has one of its own, so that a handle of another is
//! recognised.
//!
//! They are counted in RAM, from every reset anew, and never come round: a handle that was kept for 2^32 of them must not
//! fit again, because what it led to may be of another type by then. When they have run out, no handle leaves a transaction
//! until the next reset; what does without handles outside goes on, and nothing on the medium knows of them.

/// Not a session: no handle has it.
pub(crate) const NONE: u32 = u32::MAX;

/// The last session. What refusals add beyond it is taken away, long before there could be so many at the same time that
/// the number wraps.
const LAST: u32 = u32::MAX - (1 << 20);

/// The next one, if there is one left.
#[cfg(target_has_atomic = "32")]
pub(crate) fn next() -> Option<u32> {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let n = NEXT.fetch_add(1, Relaxed);
    if n > LAST {
        NEXT.store(LAST + 1, Relaxed);
        return None;
    }
    Some(n)
}

/// The next one, if there is one left.
#[cfg(not(target_has_atomic = "32"))]
pub(crate) fn next() -> Option<u32> {
    use core::cell::Cell;
    use critical_section::{Mutex, with};
    static NEXT: Mutex<Cell<u32>> = Mutex::new(Cell::new(1));
    with(|cs| {
        let c = NEXT.borrow(cs);
        let n = c.get();
        c.set(n + u32::from(n <= LAST));
        (n <= LAST).then_some(n)
    })
}
