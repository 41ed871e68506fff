//! A node that measures and sends: some readings of a sensor, then a packet with their mean over a
//! radio on SPI. The radio's driver is written on embedded-hal, and knows nothing of power cuts.

use super::sensor::{Range, Sensor};
use super::{CONFIGURED_ONCE, CONTEXTS, SENT_EARLY, committed};
use crate::abi::bench::{ARRIVED, CHANNEL, REFERENCE_MV, SELECT, SENSOR, SPI, TUNED};
use crate::{Bench, Mapped, Scene, check, ok, progress};
use core::convert::Infallible;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use nv_device::nvmem::Persist;
use nv_device::{Devices, Members, Restore, Set, Staged, StagedDevice, open};
use nv_replay::{Config, Message, NotNow, Options, Outlet, Port, Replay, last_committed};

/// The bus with the radio.
struct Bus<'d>(Bench<'d>);

impl Bus<'_> {
    fn byte(&mut self, out: u8) -> u8 {
        self.0.write(SPI, out.into());
        self.0.read(SPI) as u8
    }
}

impl ErrorType for Bus<'_> {
    type Error = Infallible;
}

impl SpiDevice for Bus<'_> {
    fn transaction(&mut self, all: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        self.0.write(SELECT, 1);
        // The crystal.
        while self.0.read(SELECT) == 0 {}
        for operation in all {
            match operation {
                Operation::Write(out) => {
                    for b in out.iter() {
                        self.byte(*b);
                    }
                }
                Operation::TransferInPlace(both) => {
                    both.iter_mut().for_each(|b| *b = self.byte(*b))
                }
                // The driver does not use them.
                Operation::Read(_) | Operation::Transfer(..) | Operation::DelayNs(_) => {}
            }
        }
        self.0.write(SELECT, 0);
        Ok(())
    }
}

/// The driver.
struct Cc2500<S> {
    spi: S,
}

/// The chip does not do what it is told.
#[derive(Debug, Clone, Copy)]
struct Silent;

mod chip {
    pub const PKTLEN: u8 = 0x06;
    pub const PKTCTRL0: u8 = 0x08;
    pub const CHANNR: u8 = 0x0A;
    pub const SRES: u8 = 0x30;
    pub const STX: u8 = 0x35;
    pub const SFTX: u8 = 0x3B;
    pub const MARCSTATE: u8 = 0x35 | 0xC0;
    pub const PATABLE: u8 = 0x3E;
    pub const FIFO_BURST: u8 = 0x7F;
    /// In MARCSTATE.
    pub const IDLE: u8 = 1;
}

impl<S: SpiDevice> Cc2500<S> {
    /// A chip that was reset.
    fn new(spi: S) -> Result<Self, Silent> {
        let mut radio = Cc2500 { spi };
        radio.write(&[chip::SRES])?;
        // Packets of variable length, with a check.
        radio.write(&[chip::PKTCTRL0, 0x05])?;
        radio.write(&[chip::PKTLEN, 60])?;
        Ok(radio)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Silent> {
        self.spi.write(bytes).map_err(|_| Silent)
    }

    fn set_channel(&mut self, channel: u8) -> Result<(), Silent> {
        self.write(&[chip::CHANNR, channel])
    }

    fn set_power(&mut self, power: u8) -> Result<(), Silent> {
        self.write(&[chip::PATABLE, power])
    }

    /// Sends a packet, and waits until it has left.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Silent> {
        self.write(&[chip::SFTX])?;
        let header = [chip::FIFO_BURST, bytes.len() as u8];
        let mut all = [Operation::Write(&header), Operation::Write(bytes)];
        self.spi.transaction(&mut all).map_err(|_| Silent)?;
        self.write(&[chip::STX])?;
        for _ in 0..100 {
            let mut state = [chip::MARCSTATE, 0];
            self.spi.transfer_in_place(&mut state).map_err(|_| Silent)?;
            if state[1] == chip::IDLE {
                return Ok(());
            }
        }
        Err(Silent)
    }
}

/// What the application wants of the radio.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Settings {
    channel: u8,
    power: u8,
    /// Bytes of a context that are not used are part of it.
    spare: u16,
}

/// The radio, restored.
struct Radio<'d>(Cc2500<Bus<'d>>);

impl<'d> Restore for Radio<'d> {
    type Context = Settings;
    /// The bench; and for a planted bug, whether the radio is taken to be configured.
    type Parts = (Bench<'d>, bool);
    type Error = Silent;
    fn restore((bench, configured): &mut Self::Parts, s: &Settings) -> Result<Self, Silent> {
        let mut radio = Cc2500::new(Bus(*bench))?;
        if !*configured {
            radio.set_channel(s.channel)?;
            radio.set_power(s.power)?;
        }
        Ok(Radio(radio))
    }
}

/// What the program keeps.
#[derive(Persist)]
#[repr(C)]
struct Station {
    sum: u16,
    readings: u16,
    packets: u16,
    spare: u16,
}

struct Node<'d, 'm, M: Mapped> {
    sensor: StagedDevice<'m, Sensor<'d>, M>,
    radio: StagedDevice<'m, Radio<'d>, M>,
    scene: &'d Scene<'d, M>,
}

impl<M: Mapped> Devices for Node<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.sensor, &self.radio)
    }
}

/// The environment: messages leave by the radio.
struct Env<'n, 'd, 'm, M: Mapped>(&'n Set<Node<'d, 'm, M>>);

impl<M: Mapped> Outlet for Env<'_, '_, '_, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let scene = self.0.scene;
        let sent = self.0.radio.with(|radio, s| {
            // What is committed, and only that.
            let tuned = u16::from_le_bytes([s.channel, s.power]);
            check!(scene, scene.bench().read(TUNED) == tuned);
            radio.0.send(m.bytes)
        });
        sent.map_err(|_| NotNow)
    }
}

/// A packet's number, and the mean.
static PACKET: Port<[u16; 2]> = Port::new(1);

const TABLE: Config = Config {
    bytes: 128,
    outbox_bytes: 32,
    seq_bits: 4,
};

/// Readings for a packet.
const READINGS: u16 = 3;
/// The power of the first packet.
const POWER: u8 = 0xC6;

fn bytes(packet: [u16; 2]) -> [u8; 4] {
    let [[a, b], [c, d]] = packet.map(u16::to_le_bytes);
    [a, b, c, d]
}

/// Turns that read the sensor, and after some of them one that sends.
pub(super) fn node<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (bug, packets, region) = (scene.argument(), scene.rounds(2), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    check!(scene, bench.read(TUNED) & 0xFF == 0);
    let Ok((contexts, rest)) = region.split_at(CONTEXTS) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    let (number, rest) = ok!(scene, last_committed(rest).map_err(|r| r.error));
    let number = committed(scene, number, &TABLE);
    let range = Range {
        reference: REFERENCE_MV,
        input: SENSOR,
    };
    let settings = Settings {
        channel: CHANNEL,
        power: POWER,
        spare: 0,
    };
    let (range, settings) = ok!(
        scene,
        open::<(Staged<Range>, Staged<Settings>), M>(contexts, number, (range, settings))
    );
    let configured = bug == CONFIGURED_ONCE && scene.read_cell(0) > 0;
    let node = Set::new(Node {
        sensor: StagedDevice::new(range, bench),
        radio: StagedDevice::new(settings, (bench, configured)),
        scene,
    });
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = ok!(
        scene,
        Replay::<Station, M, _>::open_with(rest, options, Env(&node), |_| Ok(Station {
            sum: 0,
            readings: 0,
            packets: 0,
            spare: 0,
        }))
        .map_err(|r| r.error)
    );
    let turns = 0..u32::from(packets) * u32::from(READINGS + 1);
    let sent = rt.each_step_with(&node, turns, bug, |step, station, _, bug| {
        let node = step.token();
        let s = station.get(step);
        let (sum, readings, packets) = (s.sum, s.readings, s.packets);
        let arrived = node.scene.bench().read(ARRIVED);
        check!(
            node.scene,
            arrived == packets || bug == SENT_EARLY && arrived == packets + 1
        );
        // Its power is what was committed with the packets.
        let settings = node.radio.context();
        check!(
            node.scene,
            settings.is_some_and(|s| s.channel == CHANNEL && s.power == POWER + packets as u8)
        );
        progress!(node.scene, packets * (READINGS + 1) + readings);
        let mut s = station.fields(step);
        if readings < READINGS {
            let reading = node.sensor.with(|sensor, _| sensor.read())?;
            *s.sum.get_mut()? = sum + reading;
            *s.readings.get_mut()? = readings + 1;
            return Ok(());
        }
        let packet = [packets + 1, sum / READINGS];
        if bug == SENT_EARLY {
            let fresh = node.sensor.with(|sensor, _| sensor.read())?;
            node.radio
                .with(|radio, _| radio.0.send(&bytes([packet[0], fresh])))?;
        } else {
            step.send(&PACKET, packet)?;
        }
        *s.sum.get_mut()? = 0;
        *s.readings.get_mut()? = 0;
        *s.packets.get_mut()? = packet[0];
        Ok(node.radio.change(step, |s| s.power += 1)?)
    });
    ok!(scene, sent);
    let n = ok!(
        scene,
        rt.step((), |step, station, ()| Ok(station.get(step).packets))
    );
    progress!(scene, n * (READINGS + 1));
    check!(scene, n == packets && bench.read(ARRIVED) == packets);
}
