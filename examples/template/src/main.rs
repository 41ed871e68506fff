//! The firmware, for an nRF52840.
#![no_std]
#![no_main]

mod nvm;

use app::App;
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_nrf::nvmc::Nvmc;
use embassy_time::{Duration, Ticker};
use nvmem::adapter::FromNor;
use panic_probe as _;

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let p = embassy_nrf::init(Default::default());
    let flash = FromNor::new(Nvmc::new(p.NVMC));
    let mut app = defmt::unwrap!(App::boot(flash, nvm::range()));
    defmt::info!(
        "boot {}, {} ticks so far",
        app.life().boots,
        app.life().ticks
    );

    let mut ticker = Ticker::every(Duration::from_secs(10));
    loop {
        ticker.next().await;
        defmt::unwrap!(app.tick());
        defmt::info!("tick {}", app.life().ticks);
    }
}
