#![doc = "`examples/programs/src/stats.rs`, without protection."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(unprotected::stats, 2048);
