//! The scenarios of the group `replay-costs`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::costs::replay_group());
