//! The node, with a radio whose calibration survives.
//!
//! Before each packet a CC2500 calibrates its synthesizer, which takes longer than the packet. What
//! it finds can be read, kept, and written back: its data sheet proposes that for fast hops between
//! channels. Here it is a part of the radio's context, so a life calibrates only where the bare
//! program does, too: once for ten packets.

use super::wsn::{BUS, PACKETS, READINGS, REFERENCE, Readings, Thermometer};
use crate::drivers::{Adc, Radio, Silent, Spi, Tuned};
use crate::{Found, Memory};
use nv_device::nvmem::{Persist, Region};
use nv_device::{Committed, Device, Own, Restore, bytes, open};

/// Packets between two calibrations.
const VALID: u8 = 10;

/// What the radio is set to, what its last calibration has found, and for which packets.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Calibrated {
    tuned: Tuned,
    found: [u8; 3],
    /// Their numbers over [`VALID`], and 1; 0 before the first calibration.
    valid: u8,
}

fn needed(packet: u8) -> u8 {
    packet / VALID + 1
}

struct Steady<'b>(Radio<'b>);

impl<'b> Restore for Steady<'b> {
    type Context = Calibrated;
    type Parts = &'b Spi;
    type Error = Silent;
    fn restore(spi: &mut &'b Spi, context: &Calibrated) -> Result<Self, Silent> {
        let mut radio = Radio::restore(spi, &context.tuned)?;
        radio.calibrated(context.found)?;
        Ok(Steady(radio))
    }
}

type Contexts = (Own<Readings>, Own<Calibrated>);

/// With `nv-device`.
pub fn wsn_kept(fram: Region<'static, Memory>) -> Option<Found> {
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = Calibrated {
        tuned: Tuned::FIRST,
        found: [0; 3],
        valid: 0,
    };
    let first = (Readings::of(0), first);
    let (readings, calibrated) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut thermometer = Device::<Thermometer, _>::new(readings, ());
    let mut radio = Device::<Steady<'_>, _>::new(calibrated, &bus);
    loop {
        let Readings { sum, count, packet } = *thermometer.context();
        if packet == PACKETS {
            return Some([packet.into(), 0, 0, 0, 0, 0, 0, 0]);
        }
        if count < READINGS {
            thermometer.at_least_once((), Thermometer::read).ok()?;
        } else if radio.context().valid != needed(packet) {
            let calibrated = radio.at_least_once(needed(packet), |radio, valid| {
                let found = radio.driver().0.calibrate()?;
                radio.driver().0.calibrated(found)?;
                let context = radio.context_mut();
                (context.found, context.valid) = (found, valid);
                Ok(())
            });
            calibrated.ok()?;
        } else {
            let mean = [packet.into(), sum / u16::from(READINGS)];
            let sent = radio.at_least_once(mean, |radio, mean| radio.driver().0.send(mean));
            sent.ok()?;
            let next = |readings: &mut Readings, packet| *readings = Readings::of(packet);
            thermometer.change(packet + 1, next).ok()?;
        }
    }
}

/// Bare.
pub fn wsn_kept_bare(_: Region<'static, Memory>) -> Option<Found> {
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut adc = Adc::restore(&mut (), &REFERENCE).ok()?;
    let mut radio = Radio::restore(&mut &bus, &Tuned::FIRST).ok()?;
    for packet in 0..PACKETS {
        let mut sum = 0;
        for _ in 0..READINGS {
            sum += adc.read().ok()?;
        }
        if packet % VALID == 0 {
            let found = radio.calibrate().ok()?;
            radio.calibrated(found).ok()?;
        }
        radio
            .send([packet.into(), sum / u16::from(READINGS)])
            .ok()?;
    }
    Some([PACKETS.into(), 0, 0, 0, 0, 0, 0, 0])
}
