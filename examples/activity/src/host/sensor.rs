//! The sensor on a wrist that repeats recorded motions.

use crate::args::Job;
use crate::machine::Meter;
use crate::recordings::Recording;
use anyhow::{Result, ensure};
use example_activity::{Class, Features, Lesson, Sensor, TOGETHER};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The recordings as the featurizer sees them.
pub struct Motions {
    /// What is learnt.
    pub lessons: Vec<Lesson>,
    /// What is recognised.
    pub windows: Vec<Features>,
}

impl Motions {
    /// Those of a job.
    pub fn new(job: &Job) -> Result<Self> {
        let windows = |r: &Recording| r.windows().iter().map(Features::of).collect::<Vec<_>>();
        let mut lessons = Vec::new();
        for r in &job.train {
            let parts = windows(r);
            lessons.extend(parts.chunks(TOGETHER).map(|w| Lesson::new(r.class, w)));
        }
        let windows: Vec<_> = job.recognize.iter().flat_map(windows).collect();
        let steps = lessons.len() + windows.len();
        ensure!(
            u16::try_from(steps).is_ok(),
            "{steps} steps are more than 65,535"
        );
        Ok(Motions { lessons, windows })
    }

    /// Steps of the program.
    pub fn steps(&self) -> u16 {
        (self.lessons.len() + self.windows.len()) as u16
    }

    /// What is learnt, lesson by lesson.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.lessons.iter().map(|l| l.class)
    }
}

/// An arm with a device on it.
pub struct Arm {
    motions: Rc<Motions>,
    meter: Rc<Meter>,
    /// Whether the meter looks, at each reading, at what was written since the last: without a log nothing else tells.
    looks: bool,
    reached: Cell<u16>,
}

impl Arm {
    /// At the first motion.
    pub fn new(motions: &Rc<Motions>, meter: &Rc<Meter>, looks: bool) -> Rc<Self> {
        Rc::new(Arm {
            motions: motions.clone(),
            meter: meter.clone(),
            looks,
            reached: Cell::new(0),
        })
    }

    /// The last step for which the sensor was ever read.
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
        if self.looks {
            self.meter.look();
        }
        // Steps are fewer than 65,536.
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
    /// On no arm there is no motion.
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
