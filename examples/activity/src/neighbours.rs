//! Recognition by the nearest neighbour, and what a recording's windows say together.

use crate::Features;

/// A kind of activity, by its number: below [`CLASSES`].
pub type Class = u8;

/// Kinds of activity that can be told apart.
pub const CLASSES: usize = 8;

/// A recognised window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The activity of the training window that is nearest.
    pub class: Class,
    /// How far away that is.
    pub distance: u16,
}

/// The training window that is nearest to a window, of those seen so far.
///
/// One neighbour, not several: of 40 recordings, half of them unseen, it recognises more windows than three or five.
#[derive(Debug, Clone, Copy)]
pub struct Nearest<'f> {
    of: &'f Features,
    found: Option<Found>,
}

impl<'f> Nearest<'f> {
    /// Nothing seen yet.
    pub fn to(of: &'f Features) -> Self {
        Nearest { of, found: None }
    }

    /// Looks at one training window. Of two that are equally near, the first counts.
    pub fn look(&mut self, class: Class, trained: &Features) {
        let distance = self.of.distance(trained);
        if self.found.is_none_or(|f| distance < f.distance) {
            self.found = Some(Found { class, distance });
        }
    }

    /// The result; `None` when nothing was seen.
    pub fn found(self) -> Option<Found> {
        self.found
    }
}

/// The windows of one recording vote for its activity.
#[derive(Debug, Clone, Copy, Default)]
pub struct Votes {
    count: [u16; CLASSES],
    far: [u32; CLASSES],
}

impl Votes {
    /// A window's vote. A class out of range has none.
    pub fn add(&mut self, window: Found) {
        let class = usize::from(window.class);
        if let (Some(count), Some(far)) = (self.count.get_mut(class), self.far.get_mut(class)) {
            *count = count.saturating_add(1);
            *far = far.saturating_add(window.distance.into());
        }
    }

    /// The activity with most votes, and of several the one whose windows were nearer; `None` without a vote.
    pub fn verdict(&self) -> Option<Class> {
        (0..CLASSES)
            .filter(|c| self.count[*c] > 0)
            .min_by_key(|c| (core::cmp::Reverse(self.count[*c]), self.far[*c]))
            .map(|c| c as Class)
    }
}
