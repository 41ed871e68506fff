//! The scenarios of the group `heap-snapshot`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::heap::snapshot_group());
