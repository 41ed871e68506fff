#![doc = "`examples/programs/src/bc.rs`, without protection."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(unprotected::bc, 2048);
