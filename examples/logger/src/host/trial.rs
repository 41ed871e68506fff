//! Runs a year on the device, without cuts and with them.

use crate::chip::{Bus, Chip, PART};
use anyhow::{Result, anyhow, ensure};
use example_logger::{RAM, Station, Statistics, log, read};
use nvmem::Trusted;
use spi_fram::SpiFram;

/// The result of one run.
#[derive(Default)]
pub struct Run {
    /// The mean number of bytes on the bus until the power is cut; `None` without cuts.
    pub power: Option<u64>,
    /// The number of power cuts.
    pub cuts: u64,
    /// The number of power cuts while the heap was being opened.
    pub in_open: u64,
    /// Boots on the heap of the previous boot, complete or not.
    pub reopens: u64,
    /// Bytes written to the medium.
    pub written: u64,
    /// All bytes on the bus.
    pub clocked: u64,
    /// Bytes on the bus for a cold open of the final heap.
    pub opening: u64,
    /// The values of the record at the end, read after a cold boot.
    pub values: Vec<i16>,
    /// The record's statistics.
    pub statistics: Statistics,
}

/// Provides the values, and checks that none is lost.
struct Bench<'v> {
    values: &'v [i16],
    /// The number of values in the last complete commit.
    committed: u32,
    /// The number of values in the commit in progress.
    next: u32,
    opened: bool,
    lost: Option<String>,
}

impl Station for Bench<'_> {
    fn opened(&mut self, values: u32) {
        self.opened = true;
        if values != self.committed && values != self.next {
            let committed = self.committed;
            self.lost = Some(format!(
                "{committed} values were committed, but {values} were found"
            ));
        }
        (self.committed, self.next) = (values, values);
    }
    fn value(&mut self, hour: u32) -> Option<i16> {
        self.values.get(hour as usize).copied()
    }
    fn commit_begins(&mut self, values: u32) {
        self.next = values;
    }
    fn commit_done(&mut self) {
        self.committed = self.next;
    }
}

/// The device's medium.
fn fram(chip: &mut Chip) -> Trusted<SpiFram<Bus<'_>>> {
    // SAFETY: while it has power the chip stores what it accepts, and without power the bus returns
    // an error.
    unsafe { Trusted::new(SpiFram::new(Bus(chip), PART)) }
}

/// Fills RAM with random bytes, as after a power cut.
fn scramble(ram: &mut [u8; RAM], random: &mut Random) {
    for word in ram.as_chunks_mut::<8>().0 {
        *word = random.next().to_ne_bytes();
    }
}

/// Random numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let v = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let v = (v ^ v >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        v ^ v >> 31
    }
    fn up_to(&mut self, n: u64) -> u64 {
        1 + self.next() % n.max(1)
    }
}

/// Logs all values with a commit every `every`, with a mean of `power` bytes on the bus between
/// cuts, and reads them back.
///
/// **Errors**: a committed value was lost, or an error that was no power cut.
pub fn run(
    values: &[i16],
    every: u32,
    power: Option<u64>,
    seed: u64,
    mut cut: impl FnMut(u64, u32),
) -> Result<Run> {
    let mut chip = Chip::default();
    let mut ram = [0; RAM];
    let mut random = Random(seed);
    let mut run = Run {
        power,
        ..Run::default()
    };
    let mut bench = Bench {
        values,
        committed: 0,
        next: 0,
        opened: false,
        lost: None,
    };
    // The device is shipped formatted: a format under repeated cuts might never finish.
    bench.values = &[];
    log(fram(&mut chip), &mut ram, &mut bench, every).map_err(|e| anyhow!("{e:?}"))?;
    bench.values = values;
    let mut stuck = 0;
    loop {
        scramble(&mut ram, &mut random);
        chip.power_on(power.map_or(u64::MAX, |p| random.up_to(2 * p)));
        bench.opened = false;
        let before = bench.committed;
        let ended = log(fram(&mut chip), &mut ram, &mut bench, every);
        if let Some(lost) = &bench.lost {
            return Err(anyhow!("after {} cuts: {lost}", run.cuts));
        }
        match ended {
            Ok(()) => break,
            Err(_) if chip.is_dead() => {}
            Err(e) => return Err(anyhow!("after {} cuts: {e:?}", run.cuts)),
        }
        run.cuts += 1;
        run.reopens += 1;
        run.in_open += u64::from(!bench.opened);
        stuck = if bench.committed > before {
            0
        } else {
            stuck + 1
        };
        ensure!(
            stuck < 1_000,
            "no progress after {} cuts: power for {power:?} bytes on the bus is not enough",
            run.cuts
        );
        cut(run.cuts, bench.committed);
    }
    run.written = chip.written();
    // One more cold boot: only the medium's contents survive.
    scramble(&mut ram, &mut random);
    chip.power_on(u64::MAX);
    run.clocked = chip.clocked();
    run.reopens += 1;
    log(fram(&mut chip), &mut ram, &mut bench, every).map_err(|e| anyhow!("{e:?}"))?;
    run.opening = chip.clocked() - run.clocked;
    scramble(&mut ram, &mut random);
    run.reopens += 1;
    let nv = fram(&mut chip);
    let mut back = Vec::new();
    run.statistics = read(nv, &mut ram, &mut |v| back.push(v)).map_err(|e| anyhow!("{e:?}"))?;
    run.values = back;
    Ok(run)
}
