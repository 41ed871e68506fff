//! The firmware, for an nRF52840.
#![no_std]
#![no_main]

use app::App;
use core::ops::Range;
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_nrf::nvmc::{Nvmc, PAGE_SIZE};
use embassy_time::{Duration, Ticker};
use nvmem::adapter::FromNor;
use panic_probe as _;

/// The pages that memory.x leaves to the record.
const PAGES: Range<u32> = 253 * PAGE_SIZE as u32..256 * PAGE_SIZE as u32;

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let p = embassy_nrf::init(Default::default());
    let mut app = defmt::unwrap!(App::boot(FromNor::new(Nvmc::new(p.NVMC)), PAGES));
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
