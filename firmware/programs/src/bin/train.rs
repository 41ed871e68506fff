#![doc = "`examples/programs/src/train.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::train, 1960);
