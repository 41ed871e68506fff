//! Cuts the power at every instant that matters. Add `.depth(2)` to cut the boot after it, too.

use app::App;
use nvmem::device::{Contract, EraseUnit};
use powerfail::{Chip, Simulated, SpiNor, World, explore};

/// Flash whose words a cut leaves unstable, as an nRF52840's, with small pages: a page of 4 KiB
/// has too many words for a quick test.
enum Flash {}

impl Chip for Flash {
    const CONTRACT: Contract = Contract {
        name: "flash",
        write_size: 4,
        erase: Some(EraseUnit {
            size: 128,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
        ..SpiNor::CONTRACT
    };
    const PAGE: u32 = 4;
}

const BYTES: usize = 3 * 128;

#[test]
fn no_tick_is_lost() {
    let flash = Simulated::<Flash>::new(BYTES);
    let summary = explore(flash, |flash, world: &World<u32>| {
        let mut app = App::boot(flash, 0..BYTES as u32).unwrap();
        // The world remembers what the device had stored before the cut.
        let ticks = app.life().ticks;
        assert!(ticks >= world.last_acknowledged(), "{ticks} ticks");
        while app.life().ticks < 3 {
            app.tick().unwrap();
            world.acknowledge(app.life().ticks);
        }
    })
    .run();
    println!("{summary}");
}
