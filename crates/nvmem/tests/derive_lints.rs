//! Apart from the suite: it forbids lints for a whole crate, one of them a lint of crates only.
//!
//! Generated code triggers no lint that a user may forbid, and needs no `allow`, which `forbid`
//! would refuse.

#![forbid(
    unsafe_code,
    missing_docs,
    unused,
    nonstandard_style,
    future_incompatible,
    rust_2018_idioms,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    missing_copy_implementations,
    missing_debug_implementations,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_lifetimes,
    unused_qualifications,
    variant_size_differences
)]
#![forbid(clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_docs_in_private_items,
    clippy::missing_inline_in_public_items,
    clippy::multiple_unsafe_ops_per_block,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::std_instead_of_core
)]

use nvmem::Persist;

/// With parameters.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct History<T, const N: usize> {
    /// Public.
    pub rate: u16,
    /// As well.
    pub last: [T; N],
}

/// Private fields.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Settings {
    /// Of a private type.
    hidden: Hidden,
    /// Wide.
    wide: u64,
}

/// Its field slots are never used.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
struct Hidden {
    /// A field.
    x: u16,
}

/// A tuple.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(transparent)]
struct Meters(u32);

/// With data.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
pub enum Mode {
    /// A tag alone.
    Off = 1,
    /// A field.
    On(u32) = 0x10,
}

#[test]
fn warnings_of_the_derives_can_be_errors() {
    let settings = Settings {
        hidden: Hidden { x: 1 },
        wide: 2,
    };
    let history = History {
        rate: 3,
        last: [Mode::Off, Mode::On(4)],
    };
    assert_eq!(u64::from(settings.hidden.x) * 2, settings.wide);
    assert_eq!(u32::from(history.rate), Meters(3).0);
    let different = nvmem::fingerprint::<Settings>() != nvmem::fingerprint::<Hidden>();
    assert!(different, "two layouts");
}
