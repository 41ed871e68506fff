#![doc = "`lab/programs/src/stats.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_programs_msp430::image!(protected::stats, 2048);
