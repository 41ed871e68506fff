//! The scenarios of the group `program-kv`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::programs::kv_group(), pendsv: kernel_pendsv);
