//! The programs, each with `nv-device` and bare.

mod buttons;
mod calls;
mod leds;
mod planted;
mod receive;
mod rsa;
mod sense;
mod wsn;
mod wsn_kept;
mod wsn_paced;
mod wsn_steps;

pub use buttons::{buttons, buttons_bare};
pub use calls::{calls, calls_bare};
pub use leds::{leds, leds_bare};
pub use planted::{planted_leds, planted_wsn};
pub use receive::{receive, receive_bare};
pub use rsa::{rsa, rsa_bare};
pub use sense::{sense, sense_bare};
pub use wsn::{wsn, wsn_bare};
pub use wsn_kept::{wsn_kept, wsn_kept_bare};
pub use wsn_paced::{wsn_eager, wsn_paced, wsn_paced_bare};
pub use wsn_steps::wsn_steps;
