//! The scenarios of the group `rtos-places`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::rtos::places_group(), pendsv: kernel_pendsv);
