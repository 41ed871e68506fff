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
pub use neighbours::{CLASSES, Class, Found, Nearest, Votes};
pub use program::{Sensor, Steps, program};
pub use replayed::TABLE;
pub use station::{
    COUNTER_FULL, Entry, Fram, Learnt, Lesson, NOTHING_LEARNT, PAGE, Page, Slots, Station,
    TOGETHER, learn, recognise,
};
pub use unprotected::Unprotected;
