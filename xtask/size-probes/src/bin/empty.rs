//! A program that does nothing: what the others are compared with.
#![cfg_attr(target_os = "none", no_std, no_main)]

use size_probes as _;

size_probes::probe!({
    core::hint::black_box(0);
});
