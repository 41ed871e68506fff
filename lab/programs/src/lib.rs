#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "none", no_std)]
// One source, two builds.
#![allow(clippy::duplicate_mod)]

// What examples/programs has is compiled here once more: all programs are one crate, as the
// compiler's decisions depend on that.

#[cfg(all(not(target_os = "none"), feature = "host"))]
pub mod cuts;
#[cfg(machine)]
pub mod learn;
pub mod model;
#[cfg(machine)]
pub mod plain_kernel;
#[cfg(all(not(target_os = "none"), feature = "host"))]
#[path = "../../../examples/programs/src/program.rs"]
pub mod program;
pub mod reference;
#[path = "../../../examples/programs/src/support.rs"]
pub mod support;

/// The programs on the kernel `nv-rtos`.
#[cfg(machine)]
#[path = "."]
pub mod protected {
    use ::nv_rtos;

    pub mod ar;
    pub mod bc;
    pub mod em;
    #[path = "../../../examples/programs/src/etl.rs"]
    pub mod etl;
    #[path = "../../../examples/programs/src/hashes.rs"]
    pub mod hashes;
    pub mod kv;
    pub mod mlp;
    #[path = "../../../examples/programs/src/mq.rs"]
    pub mod mq;
    pub mod pred;
    pub mod sen;
    pub mod stats;
    pub mod train;
}

/// The programs on a kernel without protection, which has the same names: [`plain_kernel`].
#[cfg(machine)]
#[path = "."]
pub mod unprotected {
    use crate::plain_kernel as nv_rtos;

    pub mod ar;
    pub mod bc;
    pub mod em;
    #[path = "../../../examples/programs/src/etl.rs"]
    pub mod etl;
    #[path = "../../../examples/programs/src/hashes.rs"]
    pub mod hashes;
    pub mod kv;
    pub mod mlp;
    #[path = "../../../examples/programs/src/mq.rs"]
    pub mod mq;
    pub mod pred;
    pub mod sen;
    pub mod stats;
    pub mod train;
}
