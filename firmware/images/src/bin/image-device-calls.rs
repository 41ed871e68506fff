//! The scenarios of the group `device-calls`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(clean relume_suite::checkpoint::calls_group());
