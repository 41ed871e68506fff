//! `CopyIfChange`: a unit that is not rewritten must hold what it seems to hold.

use crate::crash::support::{Promise, STILL, SmallUnits, life, lives};
use crate::turns::in_turn;
use checkpoint::{CopyIfChange, Split};
use nvmem::InOrder32;
use powerfail::{Mapped, Simulated, explore};

#[test]
fn mapped() {
    let s = explore(
        Mapped::<InOrder32>::new(192),
        |nv, w: &powerfail::World<'_, Promise>| life::<_, _, 2>(nv, w, &CopyIfChange(Split), 4),
    )
    .depth(2)
    .max_depth(3)
    .run();
    assert!(s.partial || s.cuts > 100, "{s}");
}

/// Each other run cuts it twice.
#[test]
fn flash() {
    let s = explore(
        Simulated::<SmallUnits>::new(3 * 128),
        |nv, w: &powerfail::World<'_, Promise>| life::<_, _, 3>(nv, w, &CopyIfChange(Split), 4),
    )
    .depth(in_turn(0, 2))
    .max_depth(3)
    .run();
    assert!(s.partial || s.cuts > 100, "{s}");
}

/// If nothing changes, everything but an image's ends is compared. The remains of an earlier boot
/// must not be trusted.
#[test]
fn flash_that_stays_the_same() {
    let s = explore(
        Simulated::<SmallUnits>::new(3 * 128),
        |nv, w: &powerfail::World<'_, Promise>| {
            lives::<_, _, 3>(nv, w, &CopyIfChange(Split), 4, STILL, 4)
        },
    )
    .depth(2)
    .max_depth(3)
    .run();
    assert!(s.partial || s.cuts > 100, "{s}");
}
