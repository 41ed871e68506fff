#![doc = "See `programs::leds`."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_sytare::image!(leds);
