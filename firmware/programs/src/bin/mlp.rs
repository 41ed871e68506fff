#![doc = "`examples/programs/src/mlp.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::mlp, 2048);
