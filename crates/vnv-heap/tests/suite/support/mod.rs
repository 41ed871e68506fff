//! What several modules share.

#[macro_use]
pub mod lives;
pub mod shared;
