//! The scenarios of the group `device-rsa`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(lab_suite::rsa::group());
