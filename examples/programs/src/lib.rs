#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "none", no_std)]
// One source, two builds.
#![allow(clippy::duplicate_mod)]

#[cfg(not(target_os = "none"))]
pub mod cuts;
pub mod plain_kernel;
pub mod reference;
pub mod support;

/// The programs on the kernel `nv-rtos`.
#[path = "."]
pub mod protected {
    use ::nv_rtos;

    pub mod em;
    pub mod mq;
}

/// The programs on a kernel without protection, which has the same names: [`plain_kernel`].
#[path = "."]
pub mod unprotected {
    use crate::plain_kernel as nv_rtos;

    pub mod em;
    pub mod mq;
}
