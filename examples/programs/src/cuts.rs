//! On a host: the programs, for campaigns with power cuts.

pub use crate::program::{Boot, Program};
use crate::reference;

/// Message queues.
pub enum Mq {}

impl Program for Mq {
    const PROTECTED: Boot = crate::mq::boot;
    fn reference() -> [u32; 4] {
        reference::mq()
    }
}

/// A pipeline into a table.
pub enum Etl {}

impl Program for Etl {
    const PROTECTED: Boot = crate::etl::boot;
    fn reference() -> [u32; 4] {
        reference::etl()
    }
}
