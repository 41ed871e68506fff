//! The device of the demo: how the program is started on its FRAM, and what it leaves there.

use crate::machine::{Count, Machine, Meter};
use crate::sensor::{Arm, Motions, Wrist};
use anyhow::{Result, anyhow, ensure};
use example_activity::{Found, Fram, Learnt, PAGE, Page, Station, TABLE, Unprotected, program};
use nv_replay::{Options, Replay};
use nvmem::Region;
use pmem_tx::{PBox, Pool, Tx};
use std::rc::Rc;

/// What a program that has ended leaves in FRAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// All of it but handles: statistics, model, log.
    pub bytes: Vec<u8>,
    /// The log.
    pub results: Vec<Found>,
}

impl Left {
    fn of<'p>(tx: &Tx<'p, Fram>, station: &Station<'p>) -> Self {
        let mut results = Vec::new();
        station.results(tx, |i, found| results.push((i, found)));
        results.sort_by_key(|(i, _)| *i);
        let mut bytes = Vec::new();
        station.bytes(tx, |b| bytes.extend_from_slice(b));
        Left {
            bytes,
            results: results.into_iter().map(|(_, found)| found).collect(),
        }
    }
}

type Fails<T> = Result<T, String>;

/// A blank medium that is large enough. **Errors**: 16 bits do not address one.
fn blank(motions: &Motions) -> Result<Machine> {
    let pages = motions.windows.len().div_ceil(PAGE);
    let heap = (motions.lessons.len() + 2) * size_of::<Learnt<'_>>().next_multiple_of(8)
        + (pages + 2) * size_of::<Page<'_>>().next_multiple_of(8);
    // The journal takes an eighth, the walk at open a sixteenth.
    let bytes = heap + heap / 4 + 512 + TABLE.table_bytes::<Fram>();
    ensure!(
        bytes <= 1 << 16,
        "the recordings need {bytes} bytes of FRAM, and 16 bits address 65,536"
    );
    Ok(Machine::new(bytes))
}

/// The device's memory in this region, formatted if it is blank.
fn open(region: Region<'_, Fram>) -> Fails<Replay<'_, Station<'static>, Fram>> {
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    Replay::open(region, options, |_| Ok(Station::new())).map_err(|e| e.error.to_string())
}

/// FRAM as it leaves the factory: formatted, nothing learnt; and what was stored for that.
pub fn factory(motions: &Motions) -> Result<(Vec<u8>, Count)> {
    let mut machine = blank(motions)?;
    let formatted = machine.boot(None, |region, _| open(region).map(drop));
    formatted
        .unwrap_or_else(|| Err("cut".into()))
        .map_err(|e| anyhow!(e))?;
    Ok((machine.image(), machine.count()))
}

/// One boot of the device, from whatever its FRAM holds, until the power goes after `stores`.
pub fn boot(machine: &mut Machine, arm: &Rc<Arm>, stores: Option<u64>) -> Option<Fails<Left>> {
    arm.wear(|| {
        machine.boot(stores, |region, meter| {
            let mut rt = open(region)?;
            meter.opened();
            program::<Wrist, _>(&mut rt).map_err(|e| e.to_string())?;
            let left = rt.look(|tx, station| Left::of(tx, station.get(tx)));
            let left = left.map_err(|e| e.to_string())?;
            left.ok_or_else(|| "the program has ended and is not where its record ends".into())
        })
    })
}

/// The program without log and records, on a blank medium: what it leaves, and how many bytes it stored itself. What the allocator
/// stores for its own purposes does not count.
pub fn unprotected(motions: &Rc<Motions>) -> Result<(Left, u64)> {
    let mut machine = blank(motions)?;
    let arm = Arm::new(motions, machine.meter(), true);
    let run = |region: Region<'_, Fram>, meter: &Meter| {
        let mut end = None;
        let pool = Pool::<PBox<'static, Station<'static>, u16>, Fram>::open(region, |tx| {
            let mut steps = Unprotected::new(tx)?;
            program::<Wrist, _>(&mut steps)?;
            meter.look();
            let station = steps.into_station();
            let left = Left::of(tx, station.get(tx));
            end = Some((left, meter.count().programs));
            Ok(station)
        });
        pool.map_err(|e| e.error.to_string())?;
        end.ok_or_else(|| "nothing was formatted".to_owned())
    };
    let end = arm.wear(|| machine.boot(None, run));
    end.unwrap_or_else(|| Err("cut".into()))
        .map_err(|e| anyhow!(e))
}
