#![doc = "`lab/programs/src/kv.rs`, without protection."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_programs_msp430::image!(unprotected::kv, 2048);
