#![doc = "`examples/programs/src/stats.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::stats, 2048);
