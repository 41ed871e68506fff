//! The programs, each with `nv-device` and bare.

mod leds;
mod rsa;
mod sense;
mod wsn;
mod wsn_steps;

pub use leds::{leds, leds_bare};
pub use rsa::{rsa, rsa_bare};
pub use sense::{sense, sense_bare};
pub use wsn::{wsn, wsn_bare};
pub use wsn_steps::wsn_steps;
