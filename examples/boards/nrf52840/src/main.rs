//! A counter of boots and seconds that survives power cuts, on an nRF52840: `nvmem`'s `Record` in
//! the internal flash.
#![no_std]
#![no_main]

mod nvm;

use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_nrf::nvmc::Nvmc;
use embassy_time::{Duration, Ticker};
use nvmem::adapter::FromNor;
use nvmem::{Persist, Record};
use panic_probe as _;

/// What is kept.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Life {
    boots: u32,
    seconds: u32,
}

/// Seconds between two updates. A page is good for 10,000 erases: three pages last for a year.
const PERIOD: u32 = 10;

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let p = embassy_nrf::init(Default::default());
    let flash = FromNor::new(Nvmc::new(p.NVMC));
    let new = Life {
        boots: 0,
        seconds: 0,
    };
    let mut life = defmt::unwrap!(Record::open(flash, nvm::range(), new));

    let Life { boots, seconds } = *life.get();
    let boots = boots + 1;
    defmt::unwrap!(life.set(Life { boots, seconds }));
    defmt::info!("boot {}, {} s so far", boots, seconds);

    let mut ticker = Ticker::every(Duration::from_secs(PERIOD.into()));
    loop {
        ticker.next().await;
        let seconds = life.get().seconds + PERIOD;
        // The core stands still while the flash is written, 85 ms at most when a page is erased.
        defmt::unwrap!(life.set(Life { boots, seconds }));
        defmt::info!("{} s", seconds);
    }
}
