#![doc = "`examples/programs/src/mlp.rs`, without protection."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(unprotected::mlp, 2048);
