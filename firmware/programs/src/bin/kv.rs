#![doc = "`examples/programs/src/kv.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::kv, 2048);
