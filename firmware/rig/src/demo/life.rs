//! A program's life: boots until it has come to its end.

use crate::board::{Board, Event, Program, Stop};
use crate::flash::mix;
use crate::time;
use anyhow::Result;
use checkpoint::Work;

/// When the power goes.
pub struct Power {
    /// In cycles.
    mean: u64,
    seed: u64,
}

impl Power {
    /// It lasts for so many milliseconds in the mean.
    pub fn new(milliseconds: u32, seed: u64) -> Self {
        Power {
            mean: time::cycles(u64::from(milliseconds) * 1_000_000),
            seed,
        }
    }

    /// From half of the mean to one and a half.
    fn period(&self, boot: u64) -> u64 {
        self.mean / 2 + mix(self.seed << 32 ^ boot) % (self.mean + 1)
    }
}

/// Boots in a row without a new checkpoint after which there is none to be expected.
const STUCK: u64 = 40;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this text.
    Finished(String),
    /// By an error, which the program told.
    Failed(String),
    /// It never would have: no period is as long as it takes from one checkpoint to the next.
    Stuck,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Finished(_) => write!(f, "finished"),
            Ended::Failed(why) => write!(f, "failed: {why}"),
            Ended::Stuck => write!(f, "no progress"),
        }
    }
}

/// What came of it.
pub struct Life {
    pub ended: Ended,
    pub boots: u64,
    pub cuts: u64,
    pub taken: u64,
    pub restored: u64,
    /// Queens that were placed.
    pub placed: u32,
    /// What the flash did.
    pub work: Work,
    pub cycles: u64,
    pub instructions: u64,
}

/// Runs a program to its end; `seen` hears how far it is.
pub fn run(
    program: &Program,
    queens: u8,
    power: Option<Power>,
    mut seen: impl FnMut(u32),
) -> Result<Life> {
    let mut board = Board::new(program, queens)?;
    let (mut boots, mut cuts, mut taken, mut restored, mut placed, mut idle) = (0, 0, 0, 0, 0, 0);
    let ended = loop {
        let period = power.as_ref().map_or(u64::MAX, |p| p.period(boots));
        let stop = board.boot(period, boots)?;
        boots += 1;
        idle += 1;
        for (event, value) in board.events() {
            match event {
                Event::Started => {}
                Event::Taken => (taken, idle) = (taken + 1, 0),
                Event::Restored => restored += 1,
            }
            placed = placed.max(value);
        }
        seen(placed);
        match stop {
            Stop::Finished(text) => break Ended::Finished(text),
            Stop::Failed(why) => break Ended::Failed(why),
            Stop::Cut if idle == STUCK => break Ended::Stuck,
            Stop::Cut => cuts += 1,
        }
    };
    let (cycles, instructions) = board.time();
    Ok(Life {
        ended,
        boots,
        cuts,
        taken,
        restored,
        placed,
        work: board.work(),
        cycles,
        instructions,
    })
}
