//! The scenarios of the group `heap-work`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::heap_work::group());
