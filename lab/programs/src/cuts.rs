//! On a host: all programs, for campaigns with power cuts.

pub use crate::program::{Boot, Program};
use crate::{protected, reference, unprotected};
use powerfail::Summary;

macro_rules! programs {
    ($($(#[$doc:meta])* $name:ident: $module:ident;)+) => {
    $(
        $(#[$doc])*
        pub enum $name {}

        impl Program for $name {
            const PROTECTED: Boot = protected::$module::boot;
            const UNPROTECTED: Option<Boot> = Some(unprotected::$module::boot);
            fn reference() -> [u32; 4] {
                reference::$module()
            }
        }
    )+

    /// Cuts the program of this name; `None` if there is none.
    pub fn by_name(name: &str, cuts: u64, events: u64) -> Option<Summary> {
        match name {
            $(stringify!($module) => Some($name::cut(cuts, events)),)+
            _ => None,
        }
    }
    };
}

programs! {
    /// Message queues.
    Mq: mq;
    /// An event group.
    Em: em;
    /// Bit counts.
    Bc: bc;
    /// A multi-layer perceptron.
    Mlp: mlp;
    /// A software timer.
    Sen: sen;
    /// A key-value store.
    Kv: kv;
    /// A pipeline into a table.
    Etl: etl;
    /// Predictions.
    Pred: pred;
    /// Statistics.
    Stats: stats;
    /// Training.
    Train: train;
    /// Activity recognition.
    Ar: ar;
}
