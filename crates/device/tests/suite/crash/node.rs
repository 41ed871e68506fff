//! The node of a wireless sensor network: it reads a temperature ten times, and sends the mean.
//!
//! Its thermometer (`tmp1x2`), its radio (`rfm69`) and its lamps (`pcf857x`) are restored after
//! each cut; the lamps count the readings, so the outside would notice anything that is taken back.

use crate::crash::chips::{Board, I2c, Spi};
use crate::crash::drivers::{Bus, Lamps, Limits, Radio, Thermometer, assert_thermometer};
use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{
    Config, Error, Message, NotNow, Options, Outlet, Port, Replay, last_committed,
};
use nv_device::nvmem::{Persist, Region};
use nv_device::{Committed, Device, Devices, Members, Own, Set, Staged, StagedDevice, open};
use powerfail::{Mapped, World, explore};

#[derive(Persist)]
#[repr(C)]
struct Station {
    sum: u32,
    readings: u32,
    packets: u32,
}

static PACKET: Port<[u8; 2]> = Port::new(1);

struct Node<'b, 'm, M: Tested> {
    thermometer: StagedDevice<'m, Thermometer<'b>, M>,
    radio: StagedDevice<'m, Radio<'b>, M>,
    lamps: StagedDevice<'m, Lamps<'b>, M>,
}

impl<M: Tested> Devices for Node<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.thermometer, &self.radio, &self.lamps)
    }
}

type Nodes<'b, 'm, M> = Set<Node<'b, 'm, M>>;

/// The environment: the devices, and the board for checks.
struct Env<'n, 'b, 'm, M: Tested> {
    node: &'n Nodes<'b, 'm, M>,
    board: &'b Board<'b, 'b>,
}

impl<M: Tested> Outlet for Env<'_, '_, '_, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let sent = self.node.radio.with(|radio, _| radio.0.send(m.bytes));
        sent.map_err(|_| NotNow)
    }
}

type Rt<'n, 'b, 'm, M> = Replay<'m, Station, M, Env<'n, 'b, 'm, M>>;

const FIRST: Limits = Limits { high: 80, low: 75 };

fn program<'n, 'b, 'm, M: Tested>(
    rt: &mut Rt<'n, 'b, 'm, M>,
    packets: u32,
    readings: u32,
) -> Result<(), Error> {
    let node = rt.env().node;
    let board = rt.env().board;
    for i in 0..packets {
        for r in 0..readings {
            rt.step_with(node, (i, r), |step, station, (_, r)| {
                let node = step.token();
                let t = node.thermometer.with(|t, _| t.0.read_temperature())?;
                let mut s = station.fields(step);
                *s.sum.get_mut()? += t as u32;
                *s.readings.get_mut()? += 1;
                node.lamps.change(step, |lit| *lit = lit.wrapping_add(1))?;
                if r == 1 {
                    node.thermometer.change(step, |limits| limits.high += 1)?;
                }
                Ok(())
            })?;
            // What the device is set to is what is committed, and only that.
            if board.bus_rate.get() > 0 && board.readings.get() > 0 {
                let limits = node.thermometer.context().expect("no call runs");
                assert_thermometer(board, limits);
            }
        }
        rt.step_with(node, (i, readings), |step, station, (i, readings)| {
            let mut s = station.fields(step);
            let mean = *s.sum.get() / readings;
            *s.sum.get_mut()? = 0;
            *s.packets.get_mut()? += 1;
            step.send(&PACKET, [*s.packets.get() as u8, mean as u8])?;
            step.token()
                .radio
                .change(step, |channel| *channel = i as u8 + 1)?;
            Ok(())
        })?;
    }
    Ok(())
}

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>, packets: u32, readings: u32) {
    let board = Board::new(world);
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::DEFAULT);
    let (rate, limits, channel, lit) =
        open::<(Own<u8>, Staged<Limits>, Staged<u8>, Staged<u8>), _>(
            contexts,
            committed,
            (100, FIRST, 0, 0),
        )
        .expect("the contexts open");
    let mut bus = Device::<Bus<'_>, _>::new(rate, &board);
    let bus: I2c<'_> = bus.up().expect("the bus").0;
    let node = Set::new(Node {
        thermometer: StagedDevice::new(limits, bus),
        radio: StagedDevice::new(channel, Spi(&board)),
        lamps: StagedDevice::eager(lit, bus).expect("the lamps"),
    });
    // Before the application uses it, a device is as its context says.
    let lit = node.lamps.context().expect("no call runs");
    assert_eq!(board.lamps.get(), lit);
    let env = Env {
        node: &node,
        board: &board,
    };
    let mut rt = Rt::open_with(rest, Options::default(), env, |_| {
        Ok(Station {
            sum: 0,
            readings: 0,
            packets: 0,
        })
    })
    .unwrap_or_else(|r| panic!("{}", r.error));
    program(&mut rt, packets, readings).expect("the program");
    rt.view(|tx, station| {
        let s = station.get(tx);
        assert_eq!((s.readings, s.packets), (packets * readings, packets));
        // The lamps' context has committed with the readings.
        assert_eq!(board.lamps.get(), s.readings as u8);
    })
    .expect("the view");
    assert_eq!(world.with(|w| w.air.len()), packets as usize);
    let limits = node.thermometer.context().expect("no call runs");
    assert_eq!(limits.high, FIRST.high + packets as i16);
}

fn nodes<M: Tested>() {
    let counting = Outside {
        counts: true,
        ..Outside::default()
    };
    let summary = explore(Mapped::<M>::new(BYTES), |nv, w| boot(nv, w, 2, 10))
        .world(counting)
        .depth(2)
        .max_depth(2)
        .sample(24)
        .run();
    println!("{summary}");
}
on_each!(node, nodes);
