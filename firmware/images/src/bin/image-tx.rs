//! The scenarios of the group `tx`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::tx::group());
