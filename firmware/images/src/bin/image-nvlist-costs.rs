//! The scenarios of the group `nvlist-costs`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::nvlist::costs_group());
