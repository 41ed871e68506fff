//! Readings of a sensor, each after a tick of the timer. All are kept.

use super::blink::Pace;
use super::sensor::{Range, Sensor};
use super::{TABLE, committed, options, parts};
use crate::abi::bench::{PERIOD, REFERENCE, REFERENCE_MV, RIPPLE_MV, SENSOR, SENSOR_MV};
use crate::{Mapped, Scene, check, ok, progress};
use nv_device::nvmem::Persist;
use nv_device::{Devices, Members, Set, Staged, StagedDevice, open};
use nv_replay::Replay;

/// The most readings.
const READINGS: usize = 4;
/// The timer's period.
const EACH: u16 = 4;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Series {
    values: [u16; READINGS],
    sum: u16,
    readings: u16,
}

struct Node<'d, 'm, M: Mapped> {
    pace: StagedDevice<'m, Pace<'d>, M>,
    sensor: StagedDevice<'m, Sensor<'d>, M>,
    scene: &'d Scene<'d, M>,
}

impl<M: Mapped> Devices for Node<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.pace, &self.sensor)
    }
}

/// Millivolts as a reading of 12 bits.
fn reading_of(millivolts: u16) -> u16 {
    (u32::from(millivolts) * 4095 / u32::from(REFERENCE_MV)) as u16
}

/// What is committed: so many readings, each of the sensor's voltage, and their sum.
fn agrees<M: Mapped>(scene: &Scene<'_, M>, series: &Series) {
    let n = usize::from(series.readings);
    let (kept, rest) = series.values.split_at(n.min(READINGS));
    let (least, most) = (reading_of(SENSOR_MV), reading_of(SENSOR_MV + RIPPLE_MV));
    check!(
        scene,
        kept.iter().all(|v| (least - 2..=most + 2).contains(v))
    );
    check!(scene, rest.iter().all(|v| *v == 0));
    check!(scene, kept.iter().sum::<u16>() == series.sum);
}

/// Steps that wait for the timer, read the sensor and keep the reading.
pub(super) fn sense<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (last, region) = (scene.rounds(3).min(READINGS as u16), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    check!(scene, bench.read(PERIOD) == 0 && bench.read(REFERENCE) == 0);
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let range = Range {
        reference: REFERENCE_MV,
        input: SENSOR,
    };
    let (pace, range) = ok!(
        scene,
        open::<(Staged<u16>, Staged<Range>), M>(contexts, committed, (EACH, range))
    );
    let node = Set::new(Node {
        pace: StagedDevice::new(pace, bench),
        sensor: StagedDevice::new(range, bench),
        scene,
    });
    let nothing = Series {
        values: [0; READINGS],
        sum: 0,
        readings: 0,
    };
    let mut rt = ok!(
        scene,
        Replay::<Series, M, _>::open_with(rest, options(TABLE), (), |_| Ok(nothing))
            .map_err(|r| r.error)
    );
    let sensed = rt.each_step_with(&node, 0..last.into(), (), |step, series, i, ()| {
        let node = step.token();
        agrees(node.scene, series.get(step));
        progress!(node.scene, i as u16);
        node.pace.with(|pace, _| pace.wait())?;
        let reading = node.sensor.with(|sensor, _| sensor.read())?;
        // Both are as their contexts say: the first use has restored them.
        let bench = node.scene.bench();
        check!(
            node.scene,
            bench.read(PERIOD) == EACH && bench.read(REFERENCE) == REFERENCE_MV
        );
        let mut series = series.fields(step);
        let sum = *series.sum.get() + reading;
        *series.sum.get_mut()? = sum;
        *series.readings.get_mut()? = i as u16 + 1;
        *series.values.at_mut(i as usize)? = reading;
        Ok(())
    });
    ok!(scene, sensed);
    let series = ok!(scene, rt.step((), |step, series, ()| Ok(*series.get(step))));
    agrees(scene, &series);
    progress!(scene, last);
    check!(scene, series.readings == last);
}
