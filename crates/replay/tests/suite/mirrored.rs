//! Programs over a mirror, cut at every store to the medium, on each kind of medium.

pub mod media;
mod node;

mod cuts;
mod faults;
mod joined;
mod padding;
#[cfg(feature = "async")]
mod tasks;
mod threads;
