//! The program: learns, then recognises. It is written once, for whatever executes its steps.

use crate::{Features, Lesson};

/// Where motion comes from: a peripheral, so there is no value to hand around. Reading the same thing again gives the same.
pub trait Sensor {
    /// How many lessons there are.
    fn lessons() -> u32;
    /// One of them.
    fn lesson(i: u32) -> Lesson;
    /// How many windows are to be recognised.
    fn windows() -> u32;
    /// One of them.
    fn window(i: u32) -> Features;
}

/// What executes the steps of the program.
pub trait Steps: Sized {
    /// Why it cannot go on.
    type Error;
    /// `body` for each number below `n`, in order. A function pointer carries nothing from one iteration to the next. The call's
    /// place in the source tells one loop from another.
    #[track_caller]
    fn each(
        &mut self,
        n: u32,
        body: fn(&mut Self, u32) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error>;
    /// The step [`learn`].
    fn learn(&mut self, lesson: Lesson) -> Result<(), Self::Error>;
    /// The step [`recognise`].
    fn recognise(&mut self, window: Features) -> Result<(), Self::Error>;
}

/// Learns all lessons, then recognises all windows.
pub fn program<S: Sensor, T: Steps>(steps: &mut T) -> Result<(), T::Error> {
    steps.each(S::lessons(), |steps, i| steps.learn(S::lesson(i)))?;
    steps.each(S::windows(), |steps, i| steps.recognise(S::window(i)))
}
