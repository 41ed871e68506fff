//! The calls of the paper's third table, between two marks each.

use crate::drivers::{Adc, Mode, Radio, Spi, Tuned};
use crate::start::{mark, phase};
use crate::{Found, Memory};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, Restore, bytes, open};

const BUS: u16 = 3;
const REFERENCE: u8 = 1;
const PACKET: [u16; 2] = [1, 2];

type Contexts = (Own<u8>, Own<Tuned>);

/// With `nv-device`: each saves the context that it changes.
pub fn calls(fram: Region<'static, Memory>) -> Option<Found> {
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let first = (REFERENCE, Tuned::FIRST);
    let (reference, tuned) = open::<Contexts, _>(fram, Committed::NOTHING, first).ok()?;
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut adc = Device::<Adc, _>::eager(reference, ()).ok()?;
    let mut radio = Device::<Radio<'_>, _>::eager(tuned, &bus).ok()?;
    mark(phase::SENSE);
    let read = adc.at_least_once((), |adc, ()| adc.driver().read());
    mark(phase::SENSE + 1);
    read.ok()?;
    mark(phase::SLEEP);
    let sleeps = radio.change((), |tuned, ()| tuned.mode = Mode::Asleep);
    mark(phase::SLEEP + 1);
    sleeps.ok()?;
    mark(phase::WAKE);
    let wakes = radio.change((), |tuned, ()| tuned.mode = Mode::Idle);
    mark(phase::WAKE + 1);
    wakes.ok()?;
    mark(phase::SEND);
    let sent = radio.at_least_once(PACKET, |radio, packet| radio.driver().send(packet));
    mark(phase::SEND + 1);
    sent.ok()?;
    Some([0; 8])
}

/// Bare.
pub fn calls_bare(_: Region<'static, Memory>) -> Option<Found> {
    let bus = Spi::restore(&mut (), &BUS).ok()?;
    let mut adc = Adc::restore(&mut (), &REFERENCE).ok()?;
    let mut radio = Radio::restore(&mut &bus, &Tuned::FIRST).ok()?;
    mark(phase::SENSE);
    let read = adc.read();
    mark(phase::SENSE + 1);
    read.ok()?;
    mark(phase::SLEEP);
    let sleeps = radio.sleep();
    mark(phase::SLEEP + 1);
    sleeps.ok()?;
    mark(phase::WAKE);
    let wakes = radio.wake();
    mark(phase::WAKE + 1);
    wakes.ok()?;
    mark(phase::SEND);
    let sent = radio.send(PACKET);
    mark(phase::SEND + 1);
    sent.ok()?;
    Some([0; 8])
}
