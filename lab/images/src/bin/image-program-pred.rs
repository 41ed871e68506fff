//! The scenarios of the group `program-pred`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::programs::pred_group(), pendsv: kernel_pendsv);
