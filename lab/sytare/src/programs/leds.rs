//! A counter that the LEDs show: one more each 10 ms.

use crate::drivers::{Leds, Pause, Progress, Timer};
use crate::{Found, Memory};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, Restore, bytes, open};

const COUNTS: u8 = 100;
const EACH_MS: u8 = 10;

type Contexts = (Own<u8>, Own<Progress>);

/// With `nv-device`: what the LEDs show is the counter.
pub fn leds(fram: Region<'static, Memory>) -> Option<Found> {
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = (0, Progress::NONE);
    let (lit, progress) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
    let mut leds = Device::<Leds, _>::eager(lit, ()).ok()?;
    let mut pause = Pause(Device::new(progress, ()));
    while *leds.context() < COUNTS {
        pause.take(*leds.context(), EACH_MS * Timer::PER_MS);
        leds.change((), |lit, ()| *lit += 1).ok()?;
    }
    Some([COUNTS.into(), 0, 0, 0, 0, 0, 0, 0])
}

/// Bare.
pub fn leds_bare(_: Region<'static, Memory>) -> Option<Found> {
    let mut leds = Leds::restore(&mut (), &0).ok()?;
    let mut timer = Timer::default();
    for count in 1..=COUNTS {
        timer.pause((EACH_MS * Timer::PER_MS).into());
        leds.show(count);
    }
    Some([COUNTS.into(), 0, 0, 0, 0, 0, 0, 0])
}
