#![doc = "`lab/programs/src/stats.rs`, without protection."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_programs_msp430::image!(unprotected::stats, 2048);
