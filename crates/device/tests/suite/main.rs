//! The integration tests of `nv-device`, with and without power cuts.

mod crash;
mod devices;
mod golden;
mod hostile;
