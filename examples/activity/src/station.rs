//! The data of the device in non-volatile memory, and the two operations that change it.
//!
//! ```text
//! Station --model--> LearntLesson --> LearntLesson --> ...      newest first
//!         --log----> Page --> Page --> ...                      newest first, 16 results each
//!         learnt[8], recognised[8]                              counters per activity
//! ```

use crate::{CLASSES, Class, Features, Nearest, Recognition};
use nvmem::fields::Fields;
use nvmem::{InOrder16, Persist};
use pmem_tx::{Error, FieldLender, PBox, Tx};

/// The medium: FRAM behind a 16-bit core, as on an MSP430FR5994.
pub type Fram = InOrder16;

/// A handle: two bytes.
type Handle<'p, T> = PBox<'p, T, u16>;

/// The maximum number of windows in a lesson.
pub const WINDOWS_PER_LESSON: usize = 4;

/// The number of results on a page of the log.
pub const RESULTS_PER_PAGE: usize = 16;

/// The abort code of [`recognise`] before anything was learnt.
pub const NOTHING_LEARNT: u16 = 1;

/// The abort code when a counter would overflow.
pub const COUNTER_FULL: u16 = 2;

/// Up to ten seconds of a recording, as features.
#[derive(Debug, Clone, Copy, Persist)]
#[repr(C)]
pub struct Lesson {
    /// The features of each window; the first [`Lesson::windows`] are valid.
    pub features: [Features; WINDOWS_PER_LESSON],
    /// The number of windows.
    pub windows: u8,
    /// The activity.
    pub class: Class,
}

/// An element of the model, a list of lessons, newest first.
#[derive(Persist)]
#[repr(C)]
pub struct LearntLesson<'p> {
    next: Option<Handle<'p, LearntLesson<'p>>>,
    lesson: Lesson,
}

/// One result: class and distance in one atomic unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Persist)]
#[repr(transparent)]
pub struct LogEntry(u16);

/// A page of the log.
#[derive(Persist)]
#[repr(C)]
pub struct Page<'p> {
    next: Option<Handle<'p, Page<'p>>>,
    entries: [LogEntry; RESULTS_PER_PAGE],
}

/// The root object.
#[derive(Persist)]
#[repr(C)]
pub struct Station<'p> {
    model: Option<Handle<'p, LearntLesson<'p>>>,
    log: Option<Handle<'p, Page<'p>>>,
    /// Windows learnt, for each class.
    learnt: [u16; CLASSES],
    /// Windows recognised, for each class.
    recognised: [u16; CLASSES],
}

/// Access to the fields of a [`Station`]; a field is logged when it is first written.
pub type StationFields<'a, 'p> = <Station<'p> as Fields>::Slots<FieldLender<'a, 'p, Fram>>;

impl LogEntry {
    const NONE: LogEntry = LogEntry(u16::MAX);

    /// A class has 3 bits, a distance 13.
    fn new(f: Recognition) -> Self {
        LogEntry(u16::from(f.class) << 13 | f.distance.min(0x1FFF))
    }

    /// Decodes the result.
    pub fn recognition(self) -> Recognition {
        Recognition {
            class: (self.0 >> 13) as Class,
            distance: self.0 & 0x1FFF,
        }
    }
}

impl Station<'_> {
    /// A station without lessons and results.
    pub const fn new() -> Self {
        Station {
            model: None,
            log: None,
            learnt: [0; CLASSES],
            recognised: [0; CLASSES],
        }
    }
}

impl Default for Station<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Adds a lesson to the model. **Errors**: [`Error::Index`] for a class out of range.
pub fn learn<'p>(
    tx: &Tx<'p, Fram>,
    mut s: StationFields<'_, 'p>,
    lesson: Lesson,
) -> Result<(), Error> {
    let counter = s.learnt.at_mut(lesson.class.into())?;
    let sum = counter.checked_add(lesson.windows.into());
    *counter = sum.ok_or(tx.abort(COUNTER_FULL))?;
    let first = s.model.get_mut()?;
    let next = first.take();
    *first = Some(PBox::new(tx, LearntLesson { next, lesson })?);
    Ok(())
}

/// Recognises a window as the activity of its nearest neighbour, and logs the result.
pub fn recognise<'p>(
    tx: &Tx<'p, Fram>,
    mut s: StationFields<'_, 'p>,
    window: Features,
) -> Result<(), Error> {
    let mut nearest = Nearest::to(&window);
    let mut at = s.model.get();
    while let Some(learnt) = at {
        let learnt = learnt.get(tx);
        for f in learnt
            .lesson
            .features
            .iter()
            .take(learnt.lesson.windows.into())
        {
            nearest.compare(learnt.lesson.class, f);
        }
        at = &learnt.next;
    }
    let recognition = nearest.result().ok_or(tx.abort(NOTHING_LEARNT))?;

    let place = count(s.recognised.get()) as usize % RESULTS_PER_PAGE;
    if place == 0 {
        let first = s.log.get_mut()?;
        let mut entries = [LogEntry::NONE; RESULTS_PER_PAGE];
        entries[0] = LogEntry::new(recognition);
        let next = first.take();
        *first = Some(PBox::new(tx, Page { next, entries })?);
    } else if let Some(mut page) = s.log.follow() {
        *page.fields().entries.at_mut(place)? = LogEntry::new(recognition);
    }
    let counter = s.recognised.at_mut(recognition.class.into())?;
    *counter = counter.checked_add(1).ok_or(tx.abort(COUNTER_FULL))?;
    Ok(())
}

/// The number of results in the log: the sum of the counters.
fn count(recognised: &[u16; CLASSES]) -> u32 {
    recognised.iter().map(|n| u32::from(*n)).sum()
}

impl<'p> Station<'p> {
    /// Calls `f` with each result in the log and its position in time, page by page, the newest
    /// page first.
    pub fn results(&self, tx: &Tx<'p, Fram>, mut f: impl FnMut(usize, Recognition)) {
        let mut left = count(&self.recognised) as usize;
        let mut at = &self.log;
        while let Some(page) = at {
            let page = page.get(tx);
            let on_page = (left + RESULTS_PER_PAGE - 1) % RESULTS_PER_PAGE + 1;
            left = left.saturating_sub(on_page);
            for (i, e) in page.entries.iter().take(on_page).enumerate() {
                f(left + i, e.recognition());
            }
            at = &page.next;
        }
    }

    /// Calls `f` with all bytes of the station except handles: statistics, model, log.
    pub fn bytes(&self, tx: &Tx<'p, Fram>, mut f: impl FnMut(&[u8])) {
        for n in self.learnt.iter().chain(&self.recognised) {
            f(&n.to_le_bytes());
        }
        let mut at = &self.model;
        while let Some(learnt) = at {
            let learnt = learnt.get(tx);
            learnt.lesson.bytes(&mut f);
            at = &learnt.next;
        }
        let mut at = &self.log;
        while let Some(page) = at {
            let page = page.get(tx);
            for e in &page.entries {
                f(&e.0.to_le_bytes());
            }
            at = &page.next;
        }
    }
}

impl Lesson {
    /// A lesson of the first [`WINDOWS_PER_LESSON`] of these windows.
    pub fn new(class: Class, windows: &[Features]) -> Self {
        let mut features = [Features::NONE; WINDOWS_PER_LESSON];
        let mut n = 0;
        for (to, from) in features.iter_mut().zip(windows) {
            *to = *from;
            n += 1;
        }
        Lesson {
            features,
            windows: n,
            class,
        }
    }

    fn bytes(&self, f: &mut impl FnMut(&[u8])) {
        for v in self.features.iter().flat_map(Features::values) {
            f(&v.to_le_bytes());
        }
        f(&[self.windows, self.class]);
    }
}
