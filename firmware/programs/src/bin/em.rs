#![doc = "`examples/programs/src/em.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::em, 2048);
