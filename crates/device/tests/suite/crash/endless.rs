//! An endless loop with numbers of 4 bits, for thousands of lives. Its progress is asserted.

use crate::crash::chips::Board;
use crate::crash::drivers::{Bus, Lamps, Limits, Thermometer};
use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::Region;
use nv_device::{
    Committed, Device, Devices, Events, Members, Own, Posted, Ring, Set, Staged, StagedDevice, open,
};
use powerfail::{EveryEvents, Mapped, World, endure};

const TABLE: Config = Config {
    bytes: 96,
    outbox_bytes: 0,
    seq_bits: 4,
};

struct Devs<'b, 'm, M: Tested> {
    lamps: StagedDevice<'m, Lamps<'b>, M>,
    thermometer: StagedDevice<'m, Thermometer<'b>, M>,
    ticks: Events<'m, 4, M>,
    board: &'b Board<'b, 'b>,
}
impl<M: Tested> Devices for Devs<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.ticks, &self.lamps, &self.thermometer)
    }
}

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let board = Board::new(world);
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let (rate, lit, limits, ticks) = open::<(Own<u8>, Staged<u8>, Staged<Limits>, Ring<4>), _>(
        contexts,
        Committed::of(number, &TABLE),
        (100, 0, Limits { high: 1, low: 0 }, ()),
    )
    .expect("the contexts open");
    let mut bus = Device::<Bus<'_>, _>::new(rate, &board);
    let bus = bus.up().expect("the bus").0;
    let set = Set::new(Devs {
        lamps: StagedDevice::eager(lit, bus).expect("the lamps"),
        thermometer: StagedDevice::new(limits, bus),
        ticks,
        board: &board,
    });
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = Replay::<[u32; 2], M, _>::open_with(rest, options, (), |_| Ok([0, 0]))
        .unwrap_or_else(|r| panic!("{}", r.error));
    // The context has committed with the program's data.
    rt.view(|tx, root| {
        let [turns, ticks] = *root.get(tx);
        assert_eq!(Some(lamps_after(turns)), set.lamps.context());
        let limits = set.thermometer.context().expect("no call runs");
        assert_eq!(limits.high, limits.low + 1);
        assert_eq!(limits.low, (turns / 40) as i16 & 0xFF);
        assert_eq!(ticks, turns);
    })
    .expect("the view");
    let ended = rt.forever_step_with(&set, (), |step, root, _, ()| {
        let devices = step.token();
        let [turns, ticks] = root.get_mut(step)?;
        // What the last turn has committed.
        let committed = *turns;
        if committed > devices.board.world.with(|w| w.progress) {
            devices.board.world.update(|w| w.progress = committed);
        }
        assert_eq!(devices.board.lamps.get(), lamps_after(committed));
        // A tick for each turn, which is handled in it.
        if devices.ticks.waiting() == 0 {
            let posted = devices.ticks.post(*turns & 0xFF);
            assert_eq!(posted, Posted::Stored);
        }
        let tick = devices.ticks.take(step)?.map(|e| e.value);
        assert_eq!(tick, Some(*turns & 0xFF));
        *ticks += 1;
        *turns += 1;
        // The lamps' context is left alone for longer than a round of numbers.
        let lit = lamps_after(*turns);
        if lit != lamps_after(*turns - 1) {
            devices.lamps.change(step, |l| *l = lit)?;
        }
        if *turns % 40 == 0 {
            let low = (*turns / 40) as i16 & 0xFF;
            devices.thermometer.at_least_once(step, |t| {
                t.driver().0.set_low_temperature_threshold(low.into())?;
                *t.context_mut() = Limits { high: low + 1, low };
                t.driver().0.read_temperature().map(|_| ())
            })?;
        }
        Ok(())
    });
    panic!("the loop has ended: {ended:?}");
}

/// The lamps count once in 20 turns, and twice in a row then.
fn lamps_after(turns: u32) -> u8 {
    (turns / 20 * 2 + u32::from(turns % 20 == 19)) as u8
}

fn run<M: Tested>() {
    let counting = Outside {
        counts: true,
        ..Outside::default()
    };
    let summary = endure(Mapped::<M>::new(BYTES), EveryEvents(120), boot, |w| {
        w.progress
    })
    .world(counting)
    .boots(if crate::crash::long() { 10_000 } else { 3_000 })
    .run();
    println!("{summary}");
}
on_each!(endless, run);
