//! The programs, each with `nv-device` and bare.

mod wsn;

pub use wsn::{wsn, wsn_bare};
