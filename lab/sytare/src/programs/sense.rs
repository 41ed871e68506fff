//! 80 readings of the temperature, 5 ms apart, and their mean. All are kept.

use crate::drivers::{Adc, Pause, Progress, Timer};
use crate::{Found, Memory};
use core::cell::RefCell;
use nv_device::nv_replay::{Config, Error, Options, Outlet, Replay, last_committed};
use nv_device::nvmem::{Persist, Region};
use nv_device::{
    Committed, Device, Devices, Members, Own, Restore, Set, Staged, StagedDevice, bytes, open,
};

const READINGS: u8 = 80;
const EACH_MS: u8 = 5;
const REFERENCE: u8 = 1;
/// Bytes of FRAM for the program.
const BYTES: usize = 640;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Series {
    values: [u16; READINGS as usize],
    sum: u32,
}

/// The pause commits by itself, slice by slice; the converter is read by steps.
struct Node<'m> {
    adc: StagedDevice<'m, Adc, Memory>,
    pause: RefCell<Pause<'m>>,
}

impl Devices for Node<'_> {
    #[inline(always)]
    fn list(&self) -> impl Members {
        &self.adc
    }
}

const TABLE: Config = Config {
    bytes: 32,
    outbox_bytes: 0,
    seq_bits: 8,
};

type Contexts = (Staged<u8>, Own<Progress>);

struct NoOutlet;
impl Outlet for NoOutlet {}

fn program(
    rt: &mut Replay<'_, Series, Memory, NoOutlet>,
    node: &Set<Node<'_>>,
) -> Result<(), Error> {
    rt.each_step_with(node, 0..READINGS.into(), (), |step, series, i, ()| {
        let node = step.token();
        if let Ok(mut pause) = node.pause.try_borrow_mut() {
            pause.take(i as u8, EACH_MS * Timer::PER_MS);
        }
        let reading = node.adc.with(|adc, _| adc.read())?;
        let mut series = series.fields(step);
        *series.sum.get_mut()? += u32::from(reading);
        *series.values.at_mut(i as usize)? = reading;
        Ok(())
    })
}

/// With `nv-device` and steps.
pub fn sense(fram: Region<'static, Memory>) -> Option<Found> {
    let (contexts, rest) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let (rest, _) = rest.split_at(BYTES).ok()?;
    let number = last_committed(&rest).ok()?;
    let committed = Committed::of(number, &TABLE);
    let first = (REFERENCE, Progress::NONE);
    let (reference, progress) = open::<Contexts, _>(contexts, committed, first).ok()?;
    let node = Set::new(Node {
        adc: StagedDevice::new(reference, ()),
        pause: RefCell::new(Pause(Device::new(progress, ()))),
    });
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let nothing = Series {
        values: [0; READINGS as usize],
        sum: 0,
    };
    let mut rt = Replay::open_with(rest, options, NoOutlet, |_| Ok(nothing)).ok()?;
    program(&mut rt, &node).ok()?;
    rt.view(|tx, series| found(series.get(tx))).ok()?
}

/// The mean, and what shows that all values are there.
fn found(series: &Series) -> Found {
    let all = series.values.iter();
    let mean = (series.sum / u32::from(READINGS)) as u16;
    let least = all.clone().copied().min().unwrap_or(0);
    let most = all.copied().max().unwrap_or(0);
    [
        mean,
        least,
        most,
        series.sum as u16,
        (series.sum >> 16) as u16,
        0,
        0,
        0,
    ]
}

/// Bare.
pub fn sense_bare(_: Region<'static, Memory>) -> Option<Found> {
    let mut adc = Adc::restore(&mut (), &REFERENCE).ok()?;
    let mut timer = Timer::default();
    let mut series = Series {
        values: [0; READINGS as usize],
        sum: 0,
    };
    for value in &mut series.values {
        timer.pause((EACH_MS * Timer::PER_MS).into());
        *value = adc.read().ok()?;
        series.sum += u32::from(*value);
    }
    Some(found(&series))
}
