//! The scenarios of the group `heap-queue-snapshot`.
#![cfg_attr(target_os = "none", no_std, no_main)]

relume_firmware::image!(relume_suite::heap::queue_snapshot_group());
