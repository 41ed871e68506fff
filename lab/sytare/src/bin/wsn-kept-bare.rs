#![doc = "See `programs::wsn_kept_bare`."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_sytare::image!(wsn_kept_bare);
