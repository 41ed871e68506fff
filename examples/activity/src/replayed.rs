//! Executes the steps with protection: each step happens once, in spite of power cuts.

use crate::program::Steps;
use crate::station::{Fram, learn, recognise};
use crate::{Features, Lesson, Station};
use nv_replay::{Config, Error, Replay};

/// The size of the replay table: two loops, one after the other, with one step each and no results.
pub const TABLE: Config = Config {
    bytes: 56,
    outbox_bytes: 0,
    seq_bits: 16,
};

impl Steps for Replay<'_, Station<'static>, Fram> {
    type Error = Error;

    #[track_caller]
    fn each(&mut self, n: u32, body: fn(&mut Self, u32) -> Result<(), Error>) -> Result<(), Error> {
        Replay::each(self, 0..n, body)
    }
    fn learn(&mut self, lesson: Lesson) -> Result<(), Error> {
        self.step(lesson, |tx, station, lesson| {
            learn(tx, station.fields(tx), lesson)
        })?;
        Ok(())
    }
    fn recognise(&mut self, window: Features) -> Result<(), Error> {
        self.step(window, |tx, station, window| {
            recognise(tx, station.fields(tx), window)
        })?;
        Ok(())
    }
}
