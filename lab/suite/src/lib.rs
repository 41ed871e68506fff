//! The papers' programs as scenarios: each is written for the machines of `firmware/`, and the rig
//! runs it as it runs those of `firmware/suite`.
#![no_std]

pub mod programs;
pub mod rsa;
pub mod variants;

use relume_suite::{Group, Mapped};

/// All groups, each for one image.
pub const fn groups<M: Mapped>() -> [Group<M>; 13] {
    [
        programs::mq_group(),
        programs::em_group(),
        programs::bc_group(),
        programs::mlp_group(),
        programs::sen_group(),
        programs::kv_group(),
        programs::etl_group(),
        programs::pred_group(),
        programs::stats_group(),
        programs::train_group(),
        programs::ar_group(),
        variants::group(),
        rsa::group(),
    ]
}
