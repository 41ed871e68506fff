//! The scenarios of the group `rtos-locks`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::rtos::locks_group(), pendsv: kernel_pendsv);
