//! The scenarios of the group `program-train`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::programs::train_group(), pendsv: kernel_pendsv);
