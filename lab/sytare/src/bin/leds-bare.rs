#![doc = "See `programs::leds_bare`."]
#![cfg_attr(target_arch = "msp430", no_std, no_main)]
lab_sytare::image!(leds_bare);
