//! Eight lamps that count, whose context commits by itself: no step, no replay.
//!
//! The outside never sees a count that a power cut takes back.

use crate::crash::chips::{Board, I2c};
use crate::crash::drivers::Lamps;
use crate::crash::world::Outside;
use crate::crash::{Tested, on_each};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, open};
use powerfail::{Mapped, World, explore};

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let board = Board::new(world);
    let (lit,) = open::<(Own<u8>,), _>(region, Committed::NOTHING, (0,)).expect("opens");
    let mut lamps = Device::<Lamps<'_>, _>::eager(lit, I2c(&board)).expect("the lamps");
    assert_eq!(board.lamps.get(), *lamps.context());
    while *lamps.context() < 6 {
        lamps.change((), |lit, ()| *lit += 1).expect("a change");
        assert_eq!(board.lamps.get(), *lamps.context());
    }
}

fn run<M: Tested>() {
    let counting = Outside {
        counts: true,
        ..Outside::default()
    };
    explore(Mapped::<M>::new(256), boot)
        .world(counting)
        .depth(2)
        .run();
}
on_each!(own, run);
