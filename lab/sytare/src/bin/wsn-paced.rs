#![doc = "See `programs::wsn_paced`."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_sytare::image!(wsn_paced);
