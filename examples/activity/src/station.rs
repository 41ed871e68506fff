//! What the device keeps in non-volatile memory, and what changes it.

use crate::{CLASSES, Class, Features, Found, Nearest};
use nvmem::fields::Fields;
use nvmem::{InOrder16, Persist};
use pmem_tx::{Error, Lender, PBox, Tx};

/// The medium: FRAM behind a 16-bit core, as on an MSP430FR5994.
pub type Fram = InOrder16;

/// A handle on it: two bytes.
type Handle<'p, T> = PBox<'p, T, u16>;

/// Windows of a recording that are learnt together.
pub const TOGETHER: usize = 4;

/// Results on a page of the log.
pub const PAGE: usize = 16;

/// The code with which a body aborts when there is nothing that a window could be near to.
pub const NOTHING_LEARNT: u16 = 1;

/// The code with which a body aborts when it cannot count further.
pub const COUNTER_FULL: u16 = 2;

/// Up to ten seconds of a recording, as features.
#[derive(Debug, Clone, Copy, Persist)]
#[repr(C)]
pub struct Lesson {
    /// Of each window; the first [`Lesson::windows`] of them count.
    pub features: [Features; TOGETHER],
    /// How many.
    pub windows: u8,
    /// What was done.
    pub class: Class,
}

/// The model is a list of lessons, the last one first.
#[derive(Persist)]
#[repr(C)]
pub struct Learnt<'p> {
    next: Option<Handle<'p, Learnt<'p>>>,
    lesson: Lesson,
}

/// One result: class and distance in one atomic unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Persist)]
#[repr(transparent)]
pub struct Entry(u16);

/// A page of the log.
#[derive(Persist)]
#[repr(C)]
pub struct Page<'p> {
    next: Option<Handle<'p, Page<'p>>>,
    entries: [Entry; PAGE],
}

/// The root of everything.
#[derive(Persist)]
#[repr(C)]
pub struct Station<'p> {
    model: Option<Handle<'p, Learnt<'p>>>,
    log: Option<Handle<'p, Page<'p>>>,
    /// Windows learnt, for each class.
    learnt: [u16; CLASSES],
    /// Windows recognised, for each class.
    recognised: [u16; CLASSES],
}

/// The fields of a [`Station`], each logged when it is first written.
pub type Slots<'a, 'p> = <Station<'p> as Fields>::Slots<Lender<'a, 'p, Fram>>;

impl Entry {
    const NONE: Entry = Entry(u16::MAX);

    /// A class has 3 bits, a distance 13.
    fn new(f: Found) -> Self {
        Entry(u16::from(f.class) << 13 | f.distance.min(0x1FFF))
    }

    /// What it says.
    pub fn found(self) -> Found {
        Found {
            class: (self.0 >> 13) as Class,
            distance: self.0 & 0x1FFF,
        }
    }
}

impl Station<'_> {
    /// A device that has learnt nothing.
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

/// A lesson becomes part of the model. A class out of range is refused with [`Error::Index`].
pub fn learn<'p>(tx: &Tx<'p, Fram>, mut s: Slots<'_, 'p>, lesson: Lesson) -> Result<(), Error> {
    let counter = s.learnt.at_mut(lesson.class.into())?;
    let sum = counter.checked_add(lesson.windows.into());
    *counter = sum.ok_or(tx.abort(COUNTER_FULL))?;
    let first = s.model.get_mut()?;
    let next = first.take();
    *first = Some(PBox::new(Learnt { next, lesson }, tx)?);
    Ok(())
}

/// A window is taken for what is nearest to it, and that is logged.
pub fn recognise<'p>(
    tx: &Tx<'p, Fram>,
    mut s: Slots<'_, 'p>,
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
            nearest.look(learnt.lesson.class, f);
        }
        at = &learnt.next;
    }
    let found = nearest.found().ok_or(tx.abort(NOTHING_LEARNT))?;

    let place = count(s.recognised.get()) as usize % PAGE;
    if place == 0 {
        let first = s.log.get_mut()?;
        let mut entries = [Entry::NONE; PAGE];
        entries[0] = Entry::new(found);
        let next = first.take();
        *first = Some(PBox::new(Page { next, entries }, tx)?);
    } else if let Some(mut page) = s.log.follow() {
        *page.fields().entries.at_mut(place)? = Entry::new(found);
    }
    let counter = s.recognised.at_mut(found.class.into())?;
    *counter = counter.checked_add(1).ok_or(tx.abort(COUNTER_FULL))?;
    Ok(())
}

/// Results in the log: what the counters of all classes say together.
fn count(recognised: &[u16; CLASSES]) -> u32 {
    recognised.iter().map(|n| u32::from(*n)).sum()
}

impl<'p> Station<'p> {
    /// Calls `f` with each result in the log, by pages, the last page first; the number is the result's place in time.
    pub fn results(&self, tx: &Tx<'p, Fram>, mut f: impl FnMut(usize, Found)) {
        let mut left = count(&self.recognised) as usize;
        let mut at = &self.log;
        while let Some(page) = at {
            let page = page.get(tx);
            let on_page = (left + PAGE - 1) % PAGE + 1;
            left = left.saturating_sub(on_page);
            for (i, e) in page.entries.iter().take(on_page).enumerate() {
                f(left + i, e.found());
            }
            at = &page.next;
        }
    }

    /// Calls `f` with the bytes of all that the station holds, handles left out: statistics, model, log.
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
    /// The first [`TOGETHER`] of these windows at the most.
    pub fn new(class: Class, windows: &[Features]) -> Self {
        let mut features = [Features::NONE; TOGETHER];
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
