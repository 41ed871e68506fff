//! Executes the steps without protection: no journal and no records. A power cut in the middle
//! corrupts the data.

use crate::program::Steps;
use crate::station::{Fram, learn, recognise};
use crate::{Features, Lesson, Station};
use pmem_tx::{Error, PBox, Tx};

/// Executes the steps while a pool is being formatted. This is the only time when `pmem-tx` writes
/// no journal: an interrupted format starts again from the beginning, as this program would have
/// to.
pub struct Unprotected<'a, 'p> {
    tx: &'a Tx<'p, Fram>,
    station: PBox<'p, Station<'p>, u16>,
}

impl<'a, 'p> Unprotected<'a, 'p> {
    /// Allocates a new station.
    pub fn new(tx: &'a Tx<'p, Fram>) -> Result<Self, Error> {
        let station = PBox::new(tx, Station::new())?;
        Ok(Unprotected { tx, station })
    }

    /// Returns the station at the end of the program.
    pub fn into_station(self) -> PBox<'p, Station<'p>, u16> {
        self.station
    }
}

impl Steps for Unprotected<'_, '_> {
    type Error = Error;
    fn each(&mut self, n: u32, body: fn(&mut Self, u32) -> Result<(), Error>) -> Result<(), Error> {
        (0..n).try_for_each(|i| body(self, i))
    }
    fn learn(&mut self, lesson: Lesson) -> Result<(), Error> {
        learn(self.tx, self.station.fields(self.tx), lesson)
    }
    fn recognise(&mut self, window: Features) -> Result<(), Error> {
        recognise(self.tx, self.station.fields(self.tx), window)
    }
}
