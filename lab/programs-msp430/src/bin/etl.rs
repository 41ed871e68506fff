#![doc = "`examples/programs/src/etl.rs`, protected."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_programs_msp430::image!(protected::etl, 3136);
