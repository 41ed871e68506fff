//! Counts packets that arrive, to 20, and shows it on the LEDs. The radio interrupts for each.
//!
//! What a packet holds, a number, is stored with its event, so it survives. The program looks
//! whether the numbers go up: a packet that counted twice would be found.

use crate::drivers::{Leds, Mode, Radio, Spi, Tuned};
use crate::start::sleep;
use crate::{Found, Memory};
use nv_device::nv_replay::{Config, Error, Options, Outlet, Replay, last_committed};
use nv_device::nvmem::Region;
use nv_device::{
    Committed, Devices, Events, Members, Posted, Restore, Ring, Set, Staged, StagedDevice, bytes,
    open,
};

const PACKETS: u16 = 20;
const BUS: u16 = 3;
const LISTENS: Tuned = Tuned {
    channel: 7,
    mode: Mode::Listens,
};
/// Bytes of FRAM for the program.
const BYTES: usize = 448;

struct Node<'m, 'b> {
    packets: Events<'m, 8, Memory>,
    leds: StagedDevice<'m, Leds, Memory>,
    radio: StagedDevice<'m, Radio<'b>, Memory>,
}

impl Devices for Node<'_, '_> {
    #[inline(always)]
    fn list(&self) -> impl Members {
        (&self.packets, &self.leds, &self.radio)
    }
}

impl Node<'_, '_> {
    /// The top half. A packet for which there is no room waits in the radio.
    fn top_half(&self) {
        let _ = self.radio.with(|radio, _| {
            while radio.arrived() && self.packets.waiting() < 8 {
                let number = radio.receive()?;
                if self.packets.post(number.into()) == Posted::Stored {
                    radio.seen();
                }
            }
            Ok(())
        });
    }
}

type Contexts = (Ring<8>, Staged<u8>, Staged<Tuned>);

const TABLE: Config = Config {
    bytes: 32,
    outbox_bytes: 0,
    seq_bits: 8,
};

struct NoOutlet;
impl Outlet for NoOutlet {}

/// The last number, and how many did not go up.
type Seen = [u16; 2];

fn count([last, wrong]: Seen, number: u16) -> Seen {
    [number, wrong + u16::from(number <= last)]
}

fn program(
    rt: &mut Replay<'_, Seen, Memory, NoOutlet>,
    node: &Set<Node<'_, '_>>,
) -> Result<(), Error> {
    rt.each_step_with(node, 0..PACKETS.into(), (), |step, seen, _, ()| {
        let node = step.token();
        // The bottom half.
        let packet = loop {
            node.top_half();
            match node.packets.take(step)? {
                Some(packet) => break packet,
                None => sleep(),
            }
        };
        let next = count(*seen.get(step), packet.value as u16);
        *seen.get_mut(step)? = next;
        Ok(node.leds.change(step, |lit| *lit += 1)?)
    })
}

/// With `nv-device` and steps.
pub fn receive(fram: Region<'static, Memory>) -> Option<Found> {
    let (contexts, rest) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let (rest, _) = rest.split_at(BYTES).ok()?;
    let number = last_committed(&rest).ok()?;
    let committed = Committed::of(number, &TABLE);
    let (packets, lit, tuned) = open::<Contexts, _>(contexts, committed, ((), 0, LISTENS)).ok()?;
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let node = Set::new(Node {
        packets,
        leds: StagedDevice::eager(lit, ()).ok()?,
        radio: StagedDevice::eager(tuned, &bus).ok()?,
    });
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = Replay::open_with(rest, options, NoOutlet, |_| Ok([0; 2])).ok()?;
    program(&mut rt, &node).ok()?;
    let [_, wrong] = rt.view(|tx, seen| *seen.get(tx)).ok()??;
    Some([PACKETS, wrong, 0, 0, 0, 0, 0, 0])
}

/// Bare.
pub fn receive_bare(_: Region<'static, Memory>) -> Option<Found> {
    let mut leds = Leds::restore(&mut (), &0).ok()?;
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut radio = Radio::restore(&mut &bus, &LISTENS).ok()?;
    let mut seen = [0; 2];
    for n in 1..=PACKETS {
        while !radio.arrived() {
            sleep();
        }
        radio.seen();
        seen = count(seen, radio.receive().ok()?.into());
        leds.show(n as u8);
    }
    Some([PACKETS, seen[1], 0, 0, 0, 0, 0, 0])
}
