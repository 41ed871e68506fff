#![doc = "`examples/programs/src/em.rs`, without protection."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
relume_programs::image!(unprotected::em, 2048);
