//! Two programs with a mistake, which the runs with cuts must find.

use super::wsn::{BUS, PACKETS, READINGS, Readings, Thermometer};
use crate::drivers::{Leds, Pause, Progress, Radio, Spi, Timer, Tuned};
use crate::{Found, Memory};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, Restore, bytes, open};

/// The counter's LEDs show the next number before it is stored: a cut takes back what was seen.
pub fn planted_leds(fram: Region<'static, Memory>) -> Option<Found> {
    type Contexts = (Own<u8>, Own<Progress>);
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = (0, Progress::NONE);
    let (lit, progress) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
    let mut leds = Device::<Leds, _>::eager(lit, ()).ok()?;
    let mut pause = Pause(Device::new(progress, ()));
    while *leds.context() < 100 {
        let shown = leds.at_least_once((), |leds, ()| {
            let next = *leds.context() + 1;
            leds.driver().show(next);
            Timer::default().pause(4);
            *leds.context_mut() = next;
            Ok(())
        });
        shown.ok()?;
        pause.take(*leds.context(), 9 * Timer::PER_MS);
    }
    Some([100, 0, 0, 0, 0, 0, 0, 0])
}

/// The node counts a packet as sent before it sends it: a cut in between loses it.
pub fn planted_wsn(fram: Region<'static, Memory>) -> Option<Found> {
    type Contexts = (Own<Readings>, Own<Tuned>);
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = (Readings::of(0), Tuned::FIRST);
    let (readings, tuned) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
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
            continue;
        }
        let next = |readings: &mut Readings, packet| *readings = Readings::of(packet);
        thermometer.change(packet + 1, next).ok()?;
        let mean = [packet.into(), sum / u16::from(READINGS)];
        let sent = radio.at_least_once(mean, |radio, mean| radio.driver().send(mean));
        sent.ok()?;
    }
}
