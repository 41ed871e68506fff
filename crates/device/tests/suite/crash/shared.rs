//! Two thermometers and an accelerometer on one bus, whose driver is restored first. Contexts of
//! one unit, of two, and of three and more; each by itself and with a step.

use crate::crash::chips::Board;
use crate::crash::drivers::{
    Accelerometer, Bus, Limits, Motion, Second, Thermometer, assert_thermometer,
};
use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Devices, Members, Own, Set, Staged, StagedDevice, open};
use powerfail::{Mapped, World, explore};

struct Sensors<'b, 'm, M: Tested> {
    second: StagedDevice<'m, Second<'b>, M>,
    motion: StagedDevice<'m, Accelerometer<'b>, M>,
}

impl<M: Tested> Devices for Sensors<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.second, &self.motion)
    }
}

const MOTION: Motion = Motion {
    threshold: 0,
    duration: 7,
    reference: 3,
};

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let board = Board::new(world);
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let (rate, limits, own_motion, upper, motion) = open::<
        (
            Own<u8>,
            Own<Limits>,
            Own<Motion>,
            Staged<i32>,
            Staged<Motion>,
        ),
        _,
    >(
        contexts,
        Committed::of(number, &Config::SMALL),
        (100, Limits { high: 1, low: 0 }, MOTION, 0, MOTION),
    )
    .expect("the contexts open");
    let mut bus = Device::<Bus<'_>, _>::new(rate, &board);
    let bus = bus.up().expect("the bus").0;
    let mut tmp = Device::<Thermometer<'_>, _>::new(limits, bus);
    let own = Device::<Accelerometer<'_>, _>::new(own_motion, bus);
    let m = *own.context();
    assert_eq!((m.threshold, m.duration, m.reference), (0, 7, 3));
    let sensors = Set::new(Sensors {
        second: StagedDevice::new(upper, bus),
        motion: StagedDevice::new(motion, bus),
    });
    let options = Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
        .unwrap_or_else(|r| panic!("{}", r.error));

    // A context of one or two units, by itself: both values are old, or both are new.
    let limits = *tmp.context();
    assert_eq!(limits.high, limits.low + 1);
    let read = tmp.at_least_once((), |tmp, ()| tmp.driver().0.read_temperature());
    read.expect("a reading");
    assert_thermometer(&board, limits);
    if limits.low < 2 {
        tmp.at_least_once(5, |tmp, n: i16| raise(tmp, n))
            .expect("a call");
        assert_thermometer(&board, *tmp.context());
    }

    for i in 0..2 {
        rt.step_with(&sensors, i, |step, count, i| {
            let sensors = step.token();
            *count.get_mut(step)? += 1;
            sensors.second.change(step, |upper| *upper += 1)?;
            // A call in a call: what both change is saved once, with the step.
            sensors.motion.at_least_once(step, |chip| {
                let nested = sensors.second.at_least_once(step, |p| {
                    *p.context_mut() += 1;
                    Ok(p.driver().0.read_temperature().is_ok())
                });
                assert!(matches!(nested, Ok(true)));
                let m = chip.context_mut();
                *m = Motion {
                    threshold: i + 1,
                    duration: m.duration + 1,
                    reference: m.reference + 1,
                };
                let reference = m.reference as u8;
                chip.driver().0.set_ref(reference)
            })?;
            Ok(())
        })
        .expect("the step");
    }
    let upper = sensors.second.context().expect("no call runs");
    let motion = sensors.motion.context().expect("no call runs");
    rt.view(|tx, count| {
        let n = *count.get(tx);
        assert_eq!((n, upper as u32, motion.threshold), (2, 2 * n, n));
        assert_eq!((motion.duration, motion.reference), (7 + n, 3 + n));
    })
    .expect("the view");
    // The devices follow what is committed.
    sensors.second.with(|_, _| Ok(())).expect("in use");
    sensors.motion.with(|_, _| Ok(())).expect("in use");
    assert_eq!(board.second.borrow()[3], (upper as u16) << 8);
    assert_eq!(board.lis.borrow()[0x26], motion.reference as u8);
}

/// A function of the program that takes a call is a nested call of the same device.
fn raise(
    tmp: &mut nv_device::Call<'_, Thermometer<'_>, Limits>,
    _: i16,
) -> Result<(), tmp1x2::Error<crate::crash::chips::Nak>> {
    let low = tmp.context().low + 1;
    tmp.driver().0.set_low_temperature_threshold(low.into())?;
    tmp.context_mut().low = low;
    raise_high(tmp)
}

fn raise_high(
    tmp: &mut nv_device::Call<'_, Thermometer<'_>, Limits>,
) -> Result<(), tmp1x2::Error<crate::crash::chips::Nak>> {
    let high = tmp.context().low + 1;
    tmp.driver().0.set_high_temperature_threshold(high.into())?;
    tmp.context_mut().high = high;
    Ok(())
}

fn run<M: Tested>() {
    explore(Mapped::<M>::new(BYTES), boot)
        .depth(2)
        .max_depth(2)
        .sample(16)
        .run();
}
on_each!(bus, run);
