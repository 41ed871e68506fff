//! A simulated sensor on a wrist that repeats recorded motions.

use crate::args::Job;
use crate::machine::Meter;
use crate::recordings::Recording;
use anyhow::{Result, ensure};
use example_activity::{Class, Features, Lesson, Sensor, WINDOWS_PER_LESSON};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The features of the recordings.
pub struct Motions {
    /// The lessons.
    pub lessons: Vec<Lesson>,
    /// The windows to recognise.
    pub windows: Vec<Features>,
}

impl Motions {
    /// Computes the features of a job's recordings.
    pub fn new(job: &Job) -> Result<Self> {
        let windows = |r: &Recording| r.windows().iter().map(Features::of).collect::<Vec<_>>();
        let mut lessons = Vec::new();
        for r in &job.train {
            let parts = windows(r);
            lessons.extend(
                parts
                    .chunks(WINDOWS_PER_LESSON)
                    .map(|w| Lesson::new(r.class, w)),
            );
        }
        let windows: Vec<_> = job.recognize.iter().flat_map(windows).collect();
        let steps = lessons.len() + windows.len();
        ensure!(
            u16::try_from(steps).is_ok(),
            "{steps} steps exceed the maximum of 65,535"
        );
        Ok(Motions { lessons, windows })
    }

    /// The number of steps of the program.
    pub fn steps(&self) -> u16 {
        (self.lessons.len() + self.windows.len()) as u16
    }

    /// The activity of each lesson.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.lessons.iter().map(|l| l.class)
    }
}

/// An arm that wears the device.
pub struct Arm {
    motions: Rc<Motions>,
    meter: Rc<Meter>,
    /// Whether the meter scans the whole medium at each reading. Needed without a journal, where no
    /// call reports a write.
    scan_all: bool,
    reached: Cell<u16>,
}

impl Arm {
    /// An arm at its first motion.
    pub fn new(motions: &Rc<Motions>, meter: &Rc<Meter>, scan_all: bool) -> Rc<Self> {
        Rc::new(Arm {
            motions: motions.clone(),
            meter: meter.clone(),
            scan_all,
            reached: Cell::new(0),
        })
    }

    /// The last step for which the sensor was read.
    pub fn reached(&self) -> u16 {
        self.reached.get()
    }

    /// Runs `f` while the sensor of this thread is on this arm.
    pub fn wear<R>(self: &Rc<Self>, f: impl FnOnce() -> R) -> R {
        let before = ARM.replace(Some(self.clone()));
        let r = f();
        ARM.set(before);
        r
    }

    fn read(&self, step: usize) {
        if self.scan_all {
            self.meter.scan_all();
        }
        // There are fewer than 65,536 steps.
        let step = step as u16;
        if step > self.reached.get() {
            self.meter.step();
            self.reached.set(step);
        }
    }
}

thread_local! {
    static ARM: RefCell<Option<Rc<Arm>>> = const { RefCell::new(None) };
}

/// The sensor of this thread.
pub enum Wrist {}

impl Wrist {
    /// Without an arm there is no motion.
    fn ask<R: Default>(f: impl FnOnce(&Arm) -> R) -> R {
        ARM.with_borrow(|arm| arm.as_deref().map(f).unwrap_or_default())
    }
}

impl Sensor for Wrist {
    fn lessons() -> u32 {
        Self::ask(|arm| arm.motions.lessons.len() as u32)
    }
    fn lesson(i: u32) -> Lesson {
        let lesson = Self::ask(|arm| {
            arm.read(i as usize);
            arm.motions.lessons.get(i as usize).copied()
        });
        lesson.unwrap_or(Lesson::new(0, &[]))
    }
    fn windows() -> u32 {
        Self::ask(|arm| arm.motions.windows.len() as u32)
    }
    fn window(i: u32) -> Features {
        let window = Self::ask(|arm| {
            arm.read(arm.motions.lessons.len() + i as usize);
            arm.motions.windows.get(i as usize).copied()
        });
        window.unwrap_or(Features::NONE)
    }
}
