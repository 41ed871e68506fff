//! Power cuts at every crash point, and again in the recovery.
#![allow(clippy::ptr_arg)] // the kit lends a campaign's input as it was given

mod endurance;
mod ops;
mod staged;
mod support;
