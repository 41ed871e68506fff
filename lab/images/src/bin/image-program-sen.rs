//! The scenarios of the group `program-sen`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::programs::sen_group(), pendsv: kernel_pendsv);
