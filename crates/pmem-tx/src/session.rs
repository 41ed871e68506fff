//! Session numbers: each opening of a pool that sends handles outside has its own, so that handles
//! of another opening are recognised.
//!
//! Numbers are counted in RAM, from 1 after each reset, and never repeat. A handle that is kept for
//! 2^32 openings must not match again: its object may have another type by then. When the numbers
//! run out, no handle can leave a transaction until the next reset. Transactions without such
//! handles still work. The medium holds no session numbers.

/// The number that no session and no handle has.
pub(crate) const NONE: u32 = u32::MAX;

/// The last session number. Each refused call adds one before it is taken back; the distance to
/// `u32::MAX` is larger than the number of calls that can be refused at the same time.
const LAST: u32 = u32::MAX - (1 << 20);

/// Takes the next number, if one is left.
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

/// Takes the next number, if one is left.
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
