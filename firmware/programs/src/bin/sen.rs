#![doc = "`examples/programs/src/sen.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::sen, 2048);
