//! The program: learns, then recognises. The same source runs with every executor of [`Steps`].

use crate::{Features, Lesson};

/// A source of motion data. It is a peripheral, so its functions have no `self`. Reading the same
/// item again gives the same value.
pub trait Sensor {
    /// The number of lessons.
    fn lessons() -> u32;
    /// One of them.
    fn lesson(i: u32) -> Lesson;
    /// The number of windows to recognise.
    fn windows() -> u32;
    /// One of them.
    fn window(i: u32) -> Features;
}

/// Executes the steps of the program.
pub trait Steps: Sized {
    /// The error of a step.
    type Error;
    /// Runs `body` for each number below `n`, in order. A function pointer cannot carry state
    /// between iterations.
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
