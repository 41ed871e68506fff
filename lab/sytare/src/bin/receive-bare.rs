#![doc = "See `programs::receive_bare`."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_sytare::image!(receive_bare);
