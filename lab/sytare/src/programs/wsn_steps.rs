//! A node of a wireless sensor network: 50 times ten readings, and a packet with their mean.

use crate::drivers::{Adc, Radio, Spi, Tuned};
use crate::{Found, Memory};
use nv_device::nv_replay::{
    Config, Error, Message, NotNow, Options, Outlet, Port, Replay, last_committed,
};
use nv_device::nvmem::{Persist, Region};
use nv_device::{Committed, Device, Devices, Members, Own, Set, Staged, StagedDevice, open};

const PACKETS: u16 = 50;
const READINGS: u16 = 10;
/// Where the devices are at first: the bus, the converter, the radio.
const FIRST: (u16, u8, Tuned) = (3, 1, Tuned::FIRST);

/// Bytes of FRAM: for the contexts of the devices, and for the program.
const CONTEXTS: usize = 192;
const RUNTIME: usize = 448;

/// What has been read for the next packet, and how many packets there were.
#[derive(Persist)]
#[repr(C)]
struct Station {
    sum: u16,
    readings: u16,
    packets: u16,
}

static MEAN: Port<u16> = Port::new(1);

/// The devices that steps use.
struct Node<'m> {
    adc: StagedDevice<'m, Adc, Memory>,
}

impl Devices for Node<'_> {
    #[inline(always)]
    fn list(&self) -> impl Members {
        &self.adc
    }
}

/// The environment: the radio sends what steps have committed.
struct Env<'n, 'm, 'b> {
    node: &'n Set<Node<'m>>,
    radio: Device<'m, Radio<'b>, Memory>,
}

impl Outlet for Env<'_, '_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let Some(Ok(mean)) = m.get(&MEAN) else {
            return Ok(());
        };
        let packet = [m.number as u16, mean];
        let sent = self
            .radio
            .at_least_once(packet, |radio, packet| radio.driver().send(packet));
        sent.map_err(|_| NotNow)
    }
}

const TABLE: Config = Config {
    bytes: 64,
    outbox_bytes: 16,
    seq_bits: 8,
};

fn program(rt: &mut Replay<'_, Station, Memory, Env<'_, '_, '_>>) -> Result<(), Error> {
    let node = rt.env().node;
    let readings = (PACKETS * READINGS).into();
    rt.each_step_with(node, 0..readings, (), |step, station, _, ()| {
        let reading = step.token().adc.with(|adc, _| adc.read())?;
        let mut s = station.fields(step);
        let (sum, n) = (*s.sum.get() + reading, *s.readings.get() + 1);
        if n < READINGS {
            *s.sum.get_mut()? = sum;
            *s.readings.get_mut()? = n;
        } else {
            *s.sum.get_mut()? = 0;
            *s.readings.get_mut()? = 0;
            *s.packets.get_mut()? += 1;
            step.send(&MEAN, sum / READINGS)?;
        }
        Ok(())
    })
}

/// With `nv-device`.
pub fn wsn_steps(fram: Region<'static, Memory>) -> Option<Found> {
    let (contexts, rest) = fram.split_at(CONTEXTS).ok()?;
    let (rest, _) = rest.split_at(RUNTIME).ok()?;
    let number = last_committed(&rest).ok()?;
    let committed = Committed::of(number, &TABLE);
    let (rate, reference, channel) =
        open::<(Own<u16>, Staged<u8>, Own<Tuned>), _>(contexts, committed, FIRST).ok()?;
    let mut bus = Device::<Spi, _>::new(rate, ());
    let bus = bus.up().ok()?;
    let node = Set::new(Node {
        adc: StagedDevice::new(reference, ()),
    });
    let env = Env {
        node: &node,
        radio: Device::new(channel, bus),
    };
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = Replay::open_with(rest, options, env, |_| {
        Ok(Station {
            sum: 0,
            readings: 0,
            packets: 0,
        })
    })
    .ok()?;
    program(&mut rt).ok()?;
    let packets = rt.view(|tx, station| station.get(tx).packets).ok()??;
    Some([packets, 0, 0, 0, 0, 0, 0, 0])
}
