//! Faults, and kinds of flash.

use crate::faulty::{Fault, Part};
use crate::support::Small;
use powerfail::{Chip, Simulated};
use proptest::prelude::*;

/// Words of 32 bytes.
pub type Words32 = Small<256, 32, 32, true>;
/// Words that may be overwritten with zeros, and units of several slots.
pub type Overwrites = Small<256, 4, 32, false>;

/// A flash on which a call that its contract forbids is a failure.
pub fn flash<C: Chip>(size: usize) -> Simulated<C> {
    Simulated::new(size).refusal_fails()
}

/// What a call meets: every other one nothing. Where calls are blocking none is dropped.
pub fn fault() -> impl Strategy<Value = Fault> {
    let part = prop_oneof![Just(Part::Nothing), Just(Part::Half), Just(Part::All)];
    let change = (prop_oneof![3 => 0..10_u8, 1 => 0..40_u8], part);
    prop_oneof![
        4 => Just(Fault::None),
        3 => change.prop_map(|(n, part)| Fault::Change(n, part)),
        1 => (0..30_u8).prop_map(Fault::Read),
        1 => (0..60_u8).prop_map(Fault::Dropped),
    ]
}
