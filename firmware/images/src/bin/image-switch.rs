//! The scenarios of the group `switch`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::switch::group(), pendsv: pendsv);
