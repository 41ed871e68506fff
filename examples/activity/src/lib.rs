#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod features;
mod neighbours;
mod program;
mod replayed;
mod station;
mod unprotected;

pub use features::{AXES, Features, Sample, WINDOW};
pub use neighbours::{CLASSES, Class, Nearest, Recognition, Votes};
pub use program::{Sensor, Steps, program};
pub use replayed::TABLE;
pub use station::{
    COUNTER_FULL, Fram, LearntLesson, Lesson, LogEntry, NOTHING_LEARNT, Page, RESULTS_PER_PAGE,
    Station, StationFields, WINDOWS_PER_LESSON, learn, recognise,
};
pub use unprotected::Unprotected;
