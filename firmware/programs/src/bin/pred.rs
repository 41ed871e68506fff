#![doc = "`examples/programs/src/pred.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::pred, 2048);
