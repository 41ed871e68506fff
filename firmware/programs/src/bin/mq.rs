#![doc = "`examples/programs/src/mq.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(protected::mq, 2048);
