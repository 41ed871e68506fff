//! The node with a pause before each packet's readings, so that a packet takes 17.9 ms: the paper's
//! takes as long.

use super::wsn::{BUS, PACKETS, READINGS, REFERENCE, Readings, Thermometer};
use crate::drivers::{Adc, Pause, Progress, Radio, Spi, Timer, Tuned};
use crate::{Found, Memory};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, Restore, bytes, open};

/// Slices of the pause: 15.25 ms.
const PAUSE: u8 = 61;

type Contexts = (Own<Readings>, Own<Tuned>, Own<Progress>);

/// With `nv-device`. The radio is restored when it is first used.
pub fn wsn_paced(fram: Region<'static, Memory>) -> Option<Found> {
    node(fram, false)
}

/// The same with a radio that is restored in each boot.
pub fn wsn_eager(fram: Region<'static, Memory>) -> Option<Found> {
    node(fram, true)
}

#[inline(always)]
fn node(fram: Region<'static, Memory>, eager: bool) -> Option<Found> {
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = (Readings::of(0), Tuned::FIRST, Progress::NONE);
    let (readings, tuned, progress) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut thermometer = Device::<Thermometer, _>::new(readings, ());
    let mut radio = match eager {
        false => Device::<Radio<'_>, _>::new(tuned, &bus),
        true => Device::eager(tuned, &bus).ok()?,
    };
    let mut pause = Pause(Device::new(progress, ()));
    loop {
        let Readings { sum, count, packet } = *thermometer.context();
        if packet == PACKETS {
            return Some([packet.into(), 0, 0, 0, 0, 0, 0, 0]);
        }
        if count == 0 {
            pause.take(packet, PAUSE);
        }
        if count < READINGS {
            thermometer.at_least_once((), Thermometer::read).ok()?;
        } else {
            let mean = [packet.into(), sum / u16::from(READINGS)];
            let sent = radio.at_least_once(mean, |radio, mean| radio.driver().send(mean));
            sent.ok()?;
            let next = |readings: &mut Readings, packet| *readings = Readings::of(packet);
            thermometer.change(packet + 1, next).ok()?;
        }
    }
}

/// Bare.
pub fn wsn_paced_bare(_: Region<'static, Memory>) -> Option<Found> {
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut adc = Adc::restore(&mut (), &REFERENCE).ok()?;
    let mut radio = Radio::restore(&mut &bus, &Tuned::FIRST).ok()?;
    let mut timer = Timer::default();
    for packet in 0..PACKETS {
        timer.pause(PAUSE.into());
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
