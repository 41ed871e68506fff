//! The scenarios of the group `replay-loops`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::replay::loops_group());
