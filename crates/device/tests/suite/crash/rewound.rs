//! A program whose RAM is saved by checkpoints: it goes on from the last one, with devices that
//! have followed it further. Behind the restore they are as the program believes.
//!
//! The checkpoint is one change of the world, which has what an image of the RAM would hold: the
//! program's data, the contexts and which of their versions count.

use crate::crash::chips::{Board, I2c};
use crate::crash::drivers::{Lamps, Limits, Thermometer, assert_thermometer};
use crate::crash::{Tested, on_each};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, open};
use powerfail::{Mapped, World, explore};

use crate::crash::world::{Image, Outside};

const ROUNDS: u32 = 4;
/// Of the world's progress: no context has changed since the checkpoint, or since the restore.
const SETTLED: u32 = 1;

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let board = Board::new(world);
    board.bus_rate.set(100);
    type All = (Own<u8>, Own<Limits>);
    let first = (0, Limits { high: 1, low: 0 });
    let (lit, limits) = open::<All, _>(region, Committed::NOTHING, first).expect("opens");
    // As the devices of the program are in an image: their drivers are built, and believe what was.
    let mut lamps = Device::<Lamps<'_>, _>::eager(lit, I2c(&board)).expect("the lamps");
    let mut tmp = Device::<Thermometer<'_>, _>::eager(limits, I2c(&board)).expect("the sensor");
    let mut round = 0;
    // What the medium has is whole, and that of the checkpoint if nothing has changed it since.
    let (lit, limits) = (*lamps.context(), *tmp.context());
    assert_eq!(limits.high, limits.low + 1, "a context of two values");
    if let Some(image) = world.with(|w| w.image.filter(|_| w.progress == SETTLED)) {
        assert_eq!(
            (lit, limits.low),
            (image.lit.0, image.limits.0.1),
            "on the medium"
        );
    }
    if let Some(image) = world.with(|w| w.image) {
        round = image.round;
        lamps.own_context().restore_image(image.lit);
        let ((high, low), second) = image.limits;
        let limits = Limits { high, low };
        tmp.own_context().restore_image((limits, second));
        lamps.restored().expect("the lamps follow");
        tmp.restored().expect("the sensor follows");
        world.update(|w| w.progress = SETTLED);
    } else {
        // Before the first change: the contexts are those of a program that begins.
        checkpoint(world, 0, &mut lamps, &mut tmp);
    }
    while round < ROUNDS {
        follow(&board, &lamps, &tmp, round);
        world.update(|w| w.progress = 0);
        // What the program does is a function of what it believes: done again, it is the same.
        lamps.change((), |lit, ()| *lit += 1).expect("a change");
        tmp.change(1, |limits, by| {
            limits.low += by;
            limits.high += by;
        })
        .expect("a change");
        lamps.change((), |lit, ()| *lit *= 2).expect("a change");
        round += 1;
        follow(&board, &lamps, &tmp, round);
        checkpoint(world, round, &mut lamps, &mut tmp);
        if round == 2 {
            // Another device of the same context and parts.
            let (lit, bus) = lamps.into_parts();
            lamps = Device::eager(lit, bus).expect("the lamps");
        }
    }
    follow(&board, &lamps, &tmp, ROUNDS);
}

fn checkpoint<'b, M: Tested>(
    world: &World<'_, Outside>,
    round: u32,
    lamps: &mut Device<'_, Lamps<'b>, M>,
    tmp: &mut Device<'_, Thermometer<'b>, M>,
) {
    let lit = lamps.own_context().image();
    let (Limits { high, low }, second) = tmp.own_context().image();
    let limits = ((high, low), second);
    let image = Some(Image { round, lit, limits });
    world.update(|w| (w.image, w.progress) = (image, SETTLED));
}

/// The devices are as the program of this round wants them.
fn follow<M: Tested>(
    board: &Board<'_, '_>,
    lamps: &Device<'_, Lamps<'_>, M>,
    tmp: &Device<'_, Thermometer<'_>, M>,
    round: u32,
) {
    let lit = (0..round).fold(0u8, |lit, _| (lit + 1) * 2);
    assert_eq!(
        (*lamps.context(), board.lamps.get()),
        (lit, lit),
        "round {round}"
    );
    let low = round as i16;
    let limits = Limits { high: low + 1, low };
    assert_eq!(*tmp.context(), limits, "round {round}");
    assert_thermometer(board, limits);
}

fn run<M: Tested>() {
    let s = explore(Mapped::<M>::new(256), boot)
        .depth(2)
        .max_depth(2)
        .run();
    assert!(s.partial || s.cuts > 2000, "{s}");
}
on_each!(restored, run);
