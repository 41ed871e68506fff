//! The scenarios of the group `program-journals`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::journals::group(), pendsv: kernel_pendsv);
