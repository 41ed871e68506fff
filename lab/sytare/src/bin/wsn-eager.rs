#![doc = "See `programs::wsn_eager`."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_sytare::image!(wsn_eager);
