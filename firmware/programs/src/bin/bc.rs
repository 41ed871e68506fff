#![doc = "`examples/programs/src/bc.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::bc, 2048);
