//! The program: learns, then recognises. It is written once, for whatever executes its steps.

use crate::{Features, Lesson};

/// Where motion comes from. Reading the same thing again gives the same.
pub trait Sensor {
    /// How many lessons there are.
    fn lessons(&self) -> u16;
    /// One of them.
    fn lesson(&self, i: u16) -> Lesson;
    /// How many windows are to be recognised.
    fn windows(&self) -> u16;
    /// One of them.
    fn window(&self, i: u16) -> Features;
}

/// What executes the steps of the program.
pub trait Steps: Sized {
    /// Why it cannot go on.
    type Error;
    /// `body` for each number below `n`, in order.
    fn each(
        &mut self,
        n: u16,
        body: impl FnMut(&mut Self, u16) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error>;
    /// The step [`learn`].
    fn learn(&mut self, lesson: Lesson) -> Result<(), Self::Error>;
    /// The step [`recognise`].
    fn recognise(&mut self, window: Features) -> Result<(), Self::Error>;
}

/// Learns all lessons, then recognises all windows.
pub fn program<S: Steps>(steps: &mut S, sensor: &impl Sensor) -> Result<(), S::Error> {
    steps.each(sensor.lessons(), |steps, i| steps.learn(sensor.lesson(i)))?;
    steps.each(sensor.windows(), |steps, i| {
        steps.recognise(sensor.window(i))
    })
}
