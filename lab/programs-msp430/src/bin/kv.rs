#![doc = "`lab/programs/src/kv.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_programs_msp430::image!(protected::kv, 2048);
