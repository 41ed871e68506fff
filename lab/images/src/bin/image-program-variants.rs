//! The scenarios of the group `program-variants`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::variants::group(), pendsv: kernel_pendsv);
