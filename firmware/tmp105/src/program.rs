//! The program. A check that fails is a panic, which ends the boot with its line.

use crate::i2c::Bus;
use embedded_hal::i2c::I2c;
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::Persist;
use nv_device::{Committed, Devices, Members, Restore, Set, Staged, StagedDevice, open};
use relume_suite::{Group, Scenario, Scene, machine};
use tmp1x2::{SlaveAddr, Tmp1x2, marker::mode::Continuous};

type M = machine::Model;

/// The scenario of the image.
pub const fn group() -> Group<M> {
    const {
        Group {
            name: "tmp105",
            primitive: "nv-device",
            scenarios: &[Scenario::new("limits", 2048, limits)],
        }
    }
}

/// What the mailbox's argument plants: a driver that is built without a look at its context.
const NOT_RESTORED: u16 = 1;

/// The device on the bus, its limits' registers, and what they hold after a reset.
const ADDRESS: u8 = 0x48;
const LOW: u8 = 2;
const HIGH: u8 = 3;
const RESET: (u16, u16) = (80 << 8, 75 << 8);

const TABLE: Config = Config::SMALL;

/// The device context: degrees.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Limits {
    high: i16,
    low: i16,
}

impl Limits {
    /// After so many steps. After none, they are those of a reset: what is wrong shows after kills.
    fn after(steps: u32) -> Limits {
        let high = 30 + ((steps + 50) % 60) as i16;
        let low = high - 5 - (steps % 7) as i16;
        Limits { high, low }
    }

    /// The registers' content: 12 bits, to the left.
    fn registers(self) -> (u16, u16) {
        ((self.high as u16) << 8, (self.low as u16) << 8)
    }
}

struct Thermometer(Tmp1x2<Bus, Continuous>);

impl Thermometer {
    fn show(&mut self, limits: &Limits) -> Result<(), <Self as Restore>::Error> {
        self.0.set_high_temperature_threshold(limits.high.into())?;
        self.0.set_low_temperature_threshold(limits.low.into())
    }
}

impl Restore for Thermometer {
    type Context = Limits;
    type Parts = (Bus, u16);
    type Error = tmp1x2::Error<crate::i2c::NoAcknowledge>;
    fn restore((bus, planted): &mut (Bus, u16), limits: &Limits) -> Result<Self, Self::Error> {
        let mut thermometer = Thermometer(Tmp1x2::new(*bus, SlaveAddr::default()));
        if *planted != NOT_RESTORED {
            thermometer.show(limits)?;
        }
        Ok(thermometer)
    }
}

struct Node<'m>(StagedDevice<'m, Thermometer, M>);

impl Devices for Node<'_> {
    fn list(&self) -> impl Members {
        &self.0
    }
}

/// The registers of both limits, as they are on the bus.
fn registers(mut bus: Bus) -> (u16, u16) {
    let mut register = |number| {
        let mut bytes = [0; 2];
        let read = bus.write_read(ADDRESS, &[number], &mut bytes);
        assert!(read.is_ok(), "the thermometer is on the bus");
        u16::from_be_bytes(bytes)
    };
    (register(HIGH), register(LOW))
}

/// The first use of the thermometer in a boot, or a later one: whatever it did before, its
/// registers are as its context says.
fn as_committed(thermometer: &StagedDevice<'_, Thermometer, M>, bus: Bus) {
    let seen = thermometer.with(|tmp, limits| {
        assert_eq!(registers(bus), limits.registers(), "the registers");
        tmp.0.read_temperature()
    });
    assert!(seen.is_ok());
}

fn limits(scene: &mut Scene<'_, M>) {
    let steps = u32::from(scene.rounds(8));
    let bus = Bus::free();
    let (contexts, rest) = scene.region().split_at(512).ok().expect("long enough");
    let number = last_committed(&rest).expect("sound");
    let committed = Committed::of(number, &TABLE);
    let first = (Limits::after(0),);
    let (context,) = open::<(Staged<Limits>,), _>(contexts, committed, first).expect("sound");
    let parts = (bus, scene.argument());
    let node = Set::new(Node(StagedDevice::new(context, parts)));
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let rt = Replay::<u32, M>::open(rest, options, |_| Ok(0));
    let mut rt = rt.ok().expect("sound");

    // The cut was one of the device, too.
    assert_eq!(registers(bus), RESET, "nothing has used the device");
    as_committed(&node.0, bus);

    let ran = rt.each_step_with(&node, 0..steps, (), |step, done, _, ()| {
        let thermometer = &step.token().0;
        // The context and the program's data are of the same step.
        let committed = thermometer.context().expect("no call runs").registers();
        assert_eq!(committed, Limits::after(*done.get(step)).registers());
        // The host sees how far it has come.
        Scene::<'static, M>::anywhere().write_cell(0, *done.get(step) as u16);
        *done.get_mut(step)? += 1;
        let next = Limits::after(*done.get(step));
        if next.high % 2 == 0 {
            // Follows after the commit, ...
            thermometer.change(step, |limits| *limits = next)?;
        } else {
            // ... or acts before it.
            thermometer.at_least_once(step, |call| {
                *call.context_mut() = next;
                call.driver().show(&next)
            })?;
        }
        Ok(())
    });
    assert!(ran.is_ok());
    as_committed(&node.0, bus);
}
