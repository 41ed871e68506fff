//! The scenarios of the group `device`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::board::group());
