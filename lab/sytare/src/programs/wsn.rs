//! A node of a wireless sensor network: 50 times ten readings, and a packet with their mean.
//!
//! The devices' contexts are all that it keeps, and each commits by itself: the converter's holds
//! the sum of what was read for the next packet. So the program is a loop that asks how far it is.

use crate::drivers::{Adc, Radio, Silent, Spi, Tuned};
use crate::start::{mark, phase};
use crate::{Found, Memory};
use nv_device::nvmem::{Persist, Region};
use nv_device::{Call, Committed, Device, Own, Restore, bytes, open};

pub(super) const PACKETS: u8 = 50;
pub(super) const READINGS: u8 = 10;
/// How the devices are set: the bus's divider and the reference of 2 V.
pub(super) const BUS: u16 = 3;
pub(super) const REFERENCE: u8 = 1;

/// A thermometer that adds up.
pub(super) struct Thermometer(Adc);

/// What was read for the packet of this number.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub(super) struct Readings {
    pub sum: u16,
    pub count: u8,
    pub packet: u8,
}

impl Readings {
    /// Nothing was read for this packet.
    pub const fn of(packet: u8) -> Self {
        Readings {
            sum: 0,
            count: 0,
            packet,
        }
    }
}

impl Restore for Thermometer {
    type Context = Readings;
    type Parts = ();
    type Error = Silent;
    fn restore(parts: &mut (), _: &Readings) -> Result<Self, Silent> {
        Adc::restore(parts, &REFERENCE).map(Thermometer)
    }
}

impl Thermometer {
    /// Reads, and adds up.
    pub fn read(call: &mut Call<'_, Self, Readings>, (): ()) -> Result<(), Silent> {
        let reading = call.driver().0.read()?;
        let readings = call.context_mut();
        readings.sum += reading;
        readings.count += 1;
        Ok(())
    }
}

type Contexts = (Own<Readings>, Own<Tuned>);

/// With `nv-device`. A packet is sent at least once, with its number.
pub fn wsn(fram: Region<'static, Memory>) -> Option<Found> {
    mark(phase::PROGRAM);
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = (Readings::of(0), Tuned::FIRST);
    let (readings, tuned) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
    mark(phase::OPEN);
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut thermometer = Device::<Thermometer, _>::new(readings, ());
    let mut radio = Device::<Radio<'_>, _>::new(tuned, &bus);
    loop {
        let Readings { sum, count, packet } = *thermometer.context();
        if packet == PACKETS {
            return Some([packet.into(), 0, 0, 0, 0, 0, 0, 0]);
        }
        if count < READINGS {
            thermometer.at_least_once((), Thermometer::read).ok()?;
        } else {
            let mean = [packet.into(), sum / u16::from(READINGS)];
            radio
                .at_least_once(mean, |radio, mean| radio.driver().send(mean))
                .ok()?;
            let next = |readings: &mut Readings, packet| *readings = Readings::of(packet);
            thermometer.change(packet + 1, next).ok()?;
        }
    }
}

/// Bare.
pub fn wsn_bare(_: Region<'static, Memory>) -> Option<Found> {
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut adc = Adc::restore(&mut (), &REFERENCE).ok()?;
    let mut radio = Radio::restore(&mut &bus, &Tuned::FIRST).ok()?;
    for packet in 0..PACKETS {
        let mut sum = 0;
        for _ in 0..READINGS {
            sum += adc.read().ok()?;
        }
        radio
            .send([packet.into(), sum / u16::from(READINGS)])
            .ok()?;
    }
    Some([PACKETS.into(), 0, 0, 0, 0, 0, 0, 0])
}
