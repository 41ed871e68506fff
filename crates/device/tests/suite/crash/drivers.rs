//! Drivers from crates.io, unmodified, each with what makes it restorable.

use crate::crash::chips::{Board, I2c, Nak, Spi};
use core::convert::Infallible;
use nv_device::nvmem::Persist;
use nv_device::{Apply, Keyed, Restore};

/// The bus: its driver sets the rate. All devices on it are built from a reference to it, so it is
/// up before them.
pub struct Bus<'b>(pub I2c<'b>);

impl<'b> Restore for Bus<'b> {
    type Context = u8;
    type Parts = &'b Board<'b, 'b>;
    type Error = Nak;
    fn restore(board: &mut Self::Parts, rate: &u8) -> Result<Self, Nak> {
        board.bus_rate.set(u32::from(*rate) * 1000);
        Ok(Bus(I2c(board)))
    }
}

/// Limits and rate of a thermometer.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Limits {
    pub high: i16,
    pub low: i16,
}

/// `tmp1x2` on a bus.
pub struct Thermometer<'b>(pub tmp1x2::Tmp1x2<I2c<'b>, tmp1x2::marker::mode::Continuous>);

impl<'b> Restore for Thermometer<'b> {
    type Context = Limits;
    type Parts = I2c<'b>;
    type Error = tmp1x2::Error<Nak>;
    fn restore(bus: &mut I2c<'b>, limits: &Limits) -> Result<Self, Self::Error> {
        assert_ne!(bus.0.bus_rate.get(), 0, "the bus is not up");
        let mut tmp = tmp1x2::Tmp1x2::new(*bus, tmp1x2::SlaveAddr::default());
        tmp.set_conversion_rate(tmp1x2::ConversionRate::_8Hz)?;
        tmp.set_high_temperature_threshold(limits.high.into())?;
        tmp.set_low_temperature_threshold(limits.low.into())?;
        Ok(Thermometer(tmp))
    }
    fn apply(&mut self, limits: &Limits) -> Result<Apply, Self::Error> {
        self.0.set_high_temperature_threshold(limits.high.into())?;
        self.0.set_low_temperature_threshold(limits.low.into())?;
        Ok(Apply::Done)
    }
}

/// The registers of a thermometer with this context.
pub fn assert_thermometer(board: &Board<'_, '_>, limits: Limits) {
    let regs = *board.tmp.borrow();
    let wanted = [0x60E0, (limits.low as u16) << 8, (limits.high as u16) << 8];
    assert_eq!(regs[1..], wanted, "registers of the thermometer");
}

/// A second `tmp1x2`, at another address. It has no `apply`, so a change builds it again.
pub struct Second<'b>(pub tmp1x2::Tmp1x2<I2c<'b>, tmp1x2::marker::mode::Continuous>);

impl<'b> Restore for Second<'b> {
    type Context = i32;
    type Parts = I2c<'b>;
    type Error = tmp1x2::Error<Nak>;
    fn restore(bus: &mut I2c<'b>, high: &i32) -> Result<Self, Self::Error> {
        let mut tmp = tmp1x2::Tmp1x2::new(*bus, tmp1x2::SlaveAddr::Alternative(false, true));
        tmp.set_high_temperature_threshold(*high as f32)?;
        Ok(Second(tmp))
    }
}

/// `pcf857x`: eight lamps, which the outside sees.
pub struct Lamps<'b>(pcf857x::Pcf8574<I2c<'b>>);

impl<'b> Restore for Lamps<'b> {
    type Context = u8;
    type Parts = I2c<'b>;
    type Error = pcf857x::Error<Nak>;
    fn restore(bus: &mut I2c<'b>, lit: &u8) -> Result<Self, Self::Error> {
        let mut port = pcf857x::Pcf8574::new(*bus, pcf857x::SlaveAddr::default());
        port.set(*lit)?;
        Ok(Lamps(port))
    }
    fn apply(&mut self, lit: &u8) -> Result<Apply, Self::Error> {
        self.0.set(*lit)?;
        Ok(Apply::Done)
    }
}

impl Lamps<'_> {
    pub fn show(&mut self, lit: u8) -> Result<(), pcf857x::Error<Nak>> {
        self.0.set(lit)
    }
}

/// What an accelerometer is set to: 12 bytes.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Motion {
    pub threshold: u32,
    pub duration: u32,
    pub reference: u32,
}

/// `lis3dh` on a bus.
pub struct Accelerometer<'b>(pub lis3dh::Lis3dh<lis3dh::Lis3dhI2C<I2c<'b>>>);

impl<'b> Restore for Accelerometer<'b> {
    type Context = Motion;
    type Parts = I2c<'b>;
    type Error = lis3dh::Error<Nak, Infallible>;
    fn restore(bus: &mut I2c<'b>, motion: &Motion) -> Result<Self, Self::Error> {
        let mut chip = lis3dh::Lis3dh::new_i2c(*bus, lis3dh::SlaveAddr::Alternate)?;
        chip.set_ref(motion.reference as u8)?;
        chip.set_range(lis3dh::Range::G4)?;
        Ok(Accelerometer(chip))
    }
}

/// `rfm69`: on which channel it sends. The model's channel is its node address.
pub struct Radio<'b>(pub rfm69::Rfm69<Spi<'b>>);

impl<'b> Restore for Radio<'b> {
    type Context = u8;
    type Parts = Spi<'b>;
    type Error = rfm69::Error<Infallible>;
    fn restore(spi: &mut Spi<'b>, channel: &u8) -> Result<Self, Self::Error> {
        let mut radio = rfm69::Rfm69::new(*spi);
        radio.frequency(433_920_000)?;
        radio.bit_rate(9600)?;
        radio.sync(&[0x2D, 0xD4])?;
        radio.node_address(*channel)?;
        Ok(Radio(radio))
    }
    fn apply(&mut self, channel: &u8) -> Result<Apply, Self::Error> {
        self.0.node_address(*channel)?;
        Ok(Apply::Done)
    }
}

/// `ds323x`, with a battery: the aging offset is a number that it keeps.
pub struct Clock<'b>(
    pub ds323x::Ds323x<ds323x::interface::I2cInterface<I2c<'b>>, ds323x::ic::DS3231>,
);

impl<'b> Restore for Clock<'b> {
    /// The number of the last call.
    type Context = u8;
    type Parts = I2c<'b>;
    type Error = ds323x::Error<Nak>;
    fn restore(bus: &mut I2c<'b>, _: &u8) -> Result<Self, Self::Error> {
        Ok(Clock(ds323x::Ds323x::new_ds3231(*bus)))
    }
}

impl Keyed for Clock<'_> {
    type Key = u8;
    fn next(context: &u8) -> u8 {
        context.wrapping_add(1)
    }
    fn last(&mut self) -> Result<u8, Self::Error> {
        Ok(self.0.aging_offset()? as u8)
    }
    fn advance(context: &mut u8, key: u8) {
        *context = key
    }
}
