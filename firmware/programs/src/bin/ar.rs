#![doc = "`examples/programs/src/ar.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::ar, 2048);
