//! The integration tests of `nv-mirror`, with and without power cuts.

mod asynch;
mod basic;
mod costs;
mod crash;
mod golden;
mod hostile;
mod support;
