//! The scenarios of the group `tx-costs`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::costs::tx_group());
