//! The images of the papers' programs: each file of `bin` is one group of `lab/suite`.
#![cfg_attr(target_os = "none", no_std)]
