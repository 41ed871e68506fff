//! A node of a wireless sensor network: ten readings, their mean, one packet; 50 times.
//!
//! The drivers are `tmp1x2` and `rfm69`, as they are. The same source runs on a board and, with
//! models of the chips, on a host.
#![no_std]

use embedded_hal::i2c::I2c;
use embedded_hal::spi::SpiDevice;
use nv_device::nv_replay::pmem_tx::Width;
use nv_device::nv_replay::{
    Config, Error, Message, NotNow, Options, Outlet, Port, Replay, last_committed,
};
use nv_device::nvmem::{Model, Persist, Region};
use nv_device::{Committed, Devices, Members, Restore, Set, Staged, StagedDevice, open};
use tmp1x2::marker::mode::Continuous;
use tmp1x2::{SlaveAddr, Tmp1x2};

/// Packets of a run.
pub const PACKETS: u32 = 50;
/// Readings for each.
pub const READINGS: u32 = 10;
/// Bytes of the memory: contexts, and the runtime.
pub const BYTES: usize = CONTEXTS + 1536;
const CONTEXTS: usize = 256;
const TABLE: Config = Config {
    bytes: 128,
    outbox_bytes: 16,
    seq_bits: 16,
};

/// What the thermometer's alert is set to.
#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Limits {
    /// Degrees.
    pub high: i16,
    /// Degrees.
    pub low: i16,
}

/// The thermometer.
pub struct Thermometer<I>(Tmp1x2<I, Continuous>);

impl<E, I: I2c<Error = E> + Clone> Restore for Thermometer<I> {
    type Context = Limits;
    type Parts = I;
    type Error = tmp1x2::Error<E>;
    fn restore(bus: &mut I, limits: &Limits) -> Result<Self, Self::Error> {
        let mut tmp = Tmp1x2::new(bus.clone(), SlaveAddr::default());
        tmp.set_high_temperature_threshold(limits.high.into())?;
        tmp.set_low_temperature_threshold(limits.low.into())?;
        Ok(Thermometer(tmp))
    }
}

/// The radio. Its context is the address from which it sends.
pub struct Radio<S>(rfm69::Rfm69<S>);

impl<E, S: SpiDevice<Error = E> + Clone> Restore for Radio<S> {
    type Context = u8;
    type Parts = S;
    type Error = rfm69::Error<E>;
    fn restore(spi: &mut S, address: &u8) -> Result<Self, Self::Error> {
        let mut radio = rfm69::Rfm69::new(spi.clone());
        radio.bit_rate(55_555)?;
        radio.frequency(433_920_000)?;
        radio.sync(&[0x2D, 100])?;
        radio.node_address(*address)?;
        Ok(Radio(radio))
    }
}

/// The devices.
pub struct Node<'m, I: I2c + Clone, S: SpiDevice + Clone, M: Model> {
    thermometer: StagedDevice<'m, Thermometer<I>, M>,
    radio: StagedDevice<'m, Radio<S>, M>,
}

impl<I: I2c + Clone, S: SpiDevice + Clone, M: Model> Devices for Node<'_, I, S, M> {
    fn list(&self) -> impl Members {
        (&self.thermometer, &self.radio)
    }
}

/// What the program has of the outside: its devices.
pub struct Env<'n, 'm, I: I2c + Clone, S: SpiDevice + Clone, M: Model>(&'n Set<Node<'m, I, S, M>>);

impl<I: I2c + Clone, S: SpiDevice + Clone, M: Model> Outlet for Env<'_, '_, I, S, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let sent = self.0.radio.with(|radio, _| radio.0.send(m.bytes));
        sent.map_err(|_| NotNow)
    }
}

/// A packet: its number and the mean of ten readings, in sixteenths of a degree.
static PACKET: Port<[u16; 2]> = Port::new(1);

/// Persistent data.
#[derive(Persist)]
#[repr(C)]
struct Sum {
    sixteenths: u32,
    packets: u32,
}

/// Boots the node from its memory, and runs it to its end.
///
/// **Errors**: the memory is damaged, or a step has failed for ever.
pub fn boot<I, S, M>(memory: Region<'_, M>, bus: I, spi: S) -> Result<(), &'static str>
where
    I: I2c + Clone,
    S: SpiDevice + Clone,
    M: Model<Unit: Width>,
{
    let (contexts, rest) = memory.split_at(CONTEXTS).map_err(|_| "too small")?;
    let number = last_committed(&rest).map_err(|_| "the memory is damaged")?;
    let first = (Limits { high: 80, low: 75 }, 1);
    let (limits, address) =
        open::<(Staged<Limits>, Staged<u8>), _>(contexts, Committed::of(number, &TABLE), first)
            .map_err(|_| "the contexts are damaged")?;
    let node = Set::new(Node {
        thermometer: StagedDevice::new(limits, bus),
        radio: StagedDevice::new(address, spi),
    });
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = Replay::<Sum, M, _>::open_with(rest, options, Env(&node), |_| {
        Ok(Sum {
            sixteenths: 0,
            packets: 0,
        })
    })
    .map_err(|_| "the memory is damaged")?;
    program(&mut rt).map_err(|_| "a step has failed")
}

fn program<I, S, M>(rt: &mut Replay<'_, Sum, M, Env<'_, '_, I, S, M>>) -> Result<(), Error>
where
    I: I2c + Clone,
    S: SpiDevice + Clone,
    M: Model<Unit: Width>,
{
    rt.each(0..PACKETS, |rt, _| {
        let node = rt.env().0;
        for reading in 0..READINGS {
            rt.step_with(node, reading, |step, sum, _| {
                let degrees = step
                    .token()
                    .thermometer
                    .with(|t, _| t.0.read_temperature())?;
                let sum = sum.get_mut(step)?;
                sum.sixteenths += (degrees * 16.0) as u32;
                Ok(())
            })?;
        }
        rt.step_with(node, (), |step, sum, ()| {
            let sum = sum.get_mut(step)?;
            let mean = core::mem::take(&mut sum.sixteenths) / READINGS;
            sum.packets += 1;
            step.send(&PACKET, [sum.packets as u16, mean as u16])
        })?;
        Ok(())
    })
}
