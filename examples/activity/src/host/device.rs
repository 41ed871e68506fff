//! The device of the demo: starts the program on its FRAM and reads the final state.

use crate::machine::{Count, Machine, Meter};
use crate::sensor::{Arm, Motions, Wrist};
use anyhow::{Result, anyhow, ensure};
use example_activity::{
    Fram, LearntLesson, Page, RESULTS_PER_PAGE, Recognition, Station, TABLE, Unprotected, program,
};
use nv_replay::{Options, Replay};
use nvmem::Region;
use pmem_tx::{PBox, Pool, Tx};
use std::rc::Rc;

/// The contents of FRAM at the end of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalState {
    /// All bytes except handles: statistics, model, log.
    pub bytes: Vec<u8>,
    /// The log.
    pub results: Vec<Recognition>,
}

impl FinalState {
    fn of<'p>(tx: &Tx<'p, Fram>, station: &Station<'p>) -> Self {
        let mut results = Vec::new();
        station.results(tx, |i, recognition| results.push((i, recognition)));
        results.sort_by_key(|(i, _)| *i);
        let mut bytes = Vec::new();
        station.bytes(tx, |b| bytes.extend_from_slice(b));
        FinalState {
            bytes,
            results: results
                .into_iter()
                .map(|(_, recognition)| recognition)
                .collect(),
        }
    }
}

type Fails<T> = Result<T, String>;

/// A blank medium of sufficient size. **Errors**: 16-bit addresses do not reach that far.
fn blank(motions: &Motions) -> Result<Machine> {
    let pages = motions.windows.len().div_ceil(RESULTS_PER_PAGE);
    let heap = (motions.lessons.len() + 2) * size_of::<LearntLesson<'_>>().next_multiple_of(8)
        + (pages + 2) * size_of::<Page<'_>>().next_multiple_of(8);
    // The journal takes an eighth, the walk at open a sixteenth.
    let bytes = heap + heap / 4 + 512 + TABLE.table_bytes::<Fram>();
    ensure!(
        bytes <= 1 << 16,
        "the recordings need {bytes} bytes of FRAM; 16-bit addresses reach 65,536"
    );
    Ok(Machine::new(bytes))
}

/// Opens the device's memory in this region, and formats it if it is blank.
fn open(region: Region<'_, Fram>) -> Fails<Replay<'_, Station<'static>, Fram>> {
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    Replay::open(region, options, |_| Ok(Station::new())).map_err(|e| e.error.to_string())
}

/// FRAM as shipped: formatted, nothing learnt. Also returns the stores for formatting.
pub fn factory(motions: &Motions) -> Result<(Vec<u8>, Count)> {
    let mut machine = blank(motions)?;
    let formatted = machine.boot(None, |region, _| open(region).map(drop));
    formatted
        .unwrap_or_else(|| Err("cut".into()))
        .map_err(|e| anyhow!(e))?;
    Ok((machine.image(), machine.count()))
}

/// Boots the device from its FRAM; the power is cut after `stores`.
pub fn boot(
    machine: &mut Machine,
    arm: &Rc<Arm>,
    stores: Option<u64>,
) -> Option<Fails<FinalState>> {
    arm.wear(|| {
        machine.boot(stores, |region, meter| {
            let mut rt = open(region)?;
            meter.opened();
            program::<Wrist, _>(&mut rt).map_err(|e| e.to_string())?;
            let state = rt.view(|tx, station| FinalState::of(tx, station.get(tx)));
            let state = state.map_err(|e| e.to_string())?;
            state.ok_or_else(|| "the program has ended before it passed all records".into())
        })
    })
}

/// Runs the program without journal and records on a blank medium. Returns the final state and the
/// bytes stored by the program itself, without the allocator's own stores.
pub fn unprotected(motions: &Rc<Motions>) -> Result<(FinalState, u64)> {
    let mut machine = blank(motions)?;
    let arm = Arm::new(motions, machine.meter(), true);
    let run = |region: Region<'_, Fram>, meter: &Meter| {
        let mut end = None;
        let pool = Pool::<PBox<'static, Station<'static>, u16>, Fram>::open(region, |tx| {
            let mut steps = Unprotected::new(tx)?;
            program::<Wrist, _>(&mut steps)?;
            meter.scan_all();
            let station = steps.into_station();
            let state = FinalState::of(tx, station.get(tx));
            end = Some((state, meter.count().by_program));
            Ok(station)
        });
        pool.map_err(|e| e.error.to_string())?;
        end.ok_or_else(|| "nothing was formatted".to_owned())
    };
    let end = arm.wear(|| machine.boot(None, run));
    end.unwrap_or_else(|| Err("cut".into()))
        .map_err(|e| anyhow!(e))
}
