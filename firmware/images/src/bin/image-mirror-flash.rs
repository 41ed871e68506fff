//! The scenarios of the group `mirror-flash`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::mirror::flash_group());
