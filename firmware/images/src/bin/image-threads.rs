//! The scenarios of the group `threads`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::threads::group(), pendsv: pendsv);
