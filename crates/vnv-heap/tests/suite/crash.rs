//! Power cuts everywhere, and in the recovery again.
#![allow(clippy::ptr_arg)] // the kit lends a campaign's input as it was given

mod ops;
pub mod random;
pub mod support;
