//! The scenarios of the group `program-mlp`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::programs::mlp_group(), pendsv: kernel_pendsv);
