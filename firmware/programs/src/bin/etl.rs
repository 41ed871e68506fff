#![doc = "`examples/programs/src/etl.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::etl, 3136);
