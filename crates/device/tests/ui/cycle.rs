// A device whose parts need a device that needs it.
#![allow(unused)]
use nv_device::nvmem::InOrder32;
use nv_device::{CallError, Device, OwnContext, Restore};

struct Bus(u8);
impl Restore for Bus {
    type Context = u8;
    type Parts = ();
    type Error = ();
    fn restore(_: &mut (), rate: &u8) -> Result<Self, ()> {
        Ok(Bus(*rate))
    }
}

struct Sensor<'b>(&'b Bus);
impl<'b> Restore for Sensor<'b> {
    type Context = u8;
    type Parts = &'b Bus;
    type Error = ();
    fn restore(bus: &mut &'b Bus, _: &u8) -> Result<Self, ()> {
        Ok(Sensor(bus))
    }
}
impl Sensor<'_> {
    fn read(&mut self) -> u8 {
        self.0.0
    }
}

type Kept<'m> = OwnContext<'m, u8, InOrder32>;

fn main() {}

fn boot<'m>(a: OwnContext<'m, u8, InOrder32>, b: Kept<'m>) -> Result<(), CallError<()>> {
    struct One<'d>(&'d Two<'d>);
    struct Two<'d>(&'d One<'d>);
    impl<'d> Restore for One<'d> {
        type Context = u8;
        type Parts = &'d Two<'d>;
        type Error = ();
        fn restore(two: &mut &'d Two<'d>, _: &u8) -> Result<Self, ()> {
            Ok(One(two))
        }
    }
    impl<'d> Restore for Two<'d> {
        type Context = u8;
        type Parts = &'d One<'d>;
        type Error = ();
        fn restore(one: &mut &'d One<'d>, _: &u8) -> Result<Self, ()> {
            Ok(Two(one))
        }
    }
    let mut one = Device::<One, _>::new(a, two.up()?);
    let mut two = Device::<Two, _>::new(b, one.up()?);
    Ok(())
}
