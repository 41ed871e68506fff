//! A year on the device, without cuts and with them.

use crate::chip::{Bus, Chip, PART};
use anyhow::{Result, anyhow, ensure};
use example_logger::{RAM, Station, Statistics, log, read};
use nvmem::Trusted;
use spi_fram::SpiFram;

/// What one run left, and what it went through.
#[derive(Default)]
pub struct Run {
    /// Bytes on the bus that the device had power for, in the mean; `None` when the power never went.
    pub power: Option<u64>,
    /// How often the power went.
    pub cuts: u64,
    /// Of those, while the heap was being opened.
    pub in_open: u64,
    /// Boots on the heap of the boot before, whether or not the power lasted until it was open.
    pub reopens: u64,
    /// Bytes that went to the medium.
    pub written: u64,
    /// Bytes on the bus, everything counted.
    pub clocked: u64,
    /// Bytes on the bus to open the heap cold, with all that is in it at the end.
    pub opening: u64,
    /// What the record holds at the end, after a cold boot.
    pub values: Vec<i16>,
    /// Its statistics.
    pub statistics: Statistics,
}

/// Where the values come from, and who watches that none is lost.
struct Bench<'v> {
    values: &'v [i16],
    /// As of the last commit that returned.
    committed: u32,
    /// As of the commit that is under way.
    next: u32,
    opened: bool,
    lost: Option<String>,
}

impl Station for Bench<'_> {
    fn opened(&mut self, values: u32) {
        self.opened = true;
        if values != self.committed && values != self.next {
            let told = self.committed;
            self.lost = Some(format!(
                "{told} values were committed, and {values} came back"
            ));
        }
        (self.committed, self.next) = (values, values);
    }
    fn value(&mut self, hour: u32) -> Option<i16> {
        self.values.get(hour as usize).copied()
    }
    fn commits(&mut self, values: u32) {
        self.next = values;
    }
    fn committed(&mut self) {
        self.committed = self.next;
    }
}

/// The device's medium.
fn fram(chip: &mut Chip) -> Trusted<SpiFram<Bus<'_>>> {
    // SAFETY: the chip keeps what it took while it had power, and the bus says when it has none.
    unsafe { Trusted::new(SpiFram::new(Bus(chip), PART)) }
}

/// What RAM holds after a power cut: anything.
fn scramble(ram: &mut [u8; RAM], chance: &mut Chance) {
    for word in ram.as_chunks_mut::<8>().0 {
        *word = chance.next().to_ne_bytes();
    }
}

/// SplitMix64.
pub struct Chance(pub u64);

impl Chance {
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

/// Logs all the values with a commit every `every`, with power for `power` bytes on the bus in the mean, and reads them back.
///
/// **Errors**: a committed value was lost, or something failed that was no power cut.
pub fn run(
    values: &[i16],
    every: u32,
    power: Option<u64>,
    seed: u64,
    mut cut: impl FnMut(u64, u32),
) -> Result<Run> {
    let mut chip = Chip::default();
    let mut ram = [0; RAM];
    let mut chance = Chance(seed);
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
    // The device leaves the factory formatted: what it finds blank must not be cut short again and again.
    bench.values = &[];
    log(fram(&mut chip), &mut ram, &mut bench, every).map_err(|e| anyhow!("{e:?}"))?;
    bench.values = values;
    let mut stuck = 0;
    loop {
        scramble(&mut ram, &mut chance);
        chip.power_on(power.map_or(u64::MAX, |p| chance.up_to(2 * p)));
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
            "no progress after {} cuts: power for {power:?} bytes on the bus is too little",
            run.cuts
        );
        cut(run.cuts, bench.committed);
    }
    run.written = chip.written();
    // A cold boot once more: what is on the medium is all that there is.
    scramble(&mut ram, &mut chance);
    chip.power_on(u64::MAX);
    run.clocked = chip.clocked();
    run.reopens += 1;
    log(fram(&mut chip), &mut ram, &mut bench, every).map_err(|e| anyhow!("{e:?}"))?;
    run.opening = chip.clocked() - run.clocked;
    scramble(&mut ram, &mut chance);
    run.reopens += 1;
    let nv = fram(&mut chip);
    let mut back = Vec::new();
    run.statistics = read(nv, &mut ram, &mut |v| back.push(v)).map_err(|e| anyhow!("{e:?}"))?;
    run.values = back;
    Ok(run)
}
