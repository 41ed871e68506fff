//! The errors inside this module.

/// Smaller than [`LevelError`](super::LevelError), which the public methods make of it.
#[derive(Debug)]
pub(crate) enum Fault<E> {
    Medium(E),
    /// Another version of the format, or another geometry: the field `other` of the log holds it.
    Other,
    Foreign,
    Damaged,
    ReadOnly,
    WornOut,
}

pub(crate) type Result<T, E> = core::result::Result<T, Fault<E>>;
