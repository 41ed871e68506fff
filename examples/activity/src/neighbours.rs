//! Nearest-neighbour recognition of windows, and the vote of a recording's windows.

use crate::Features;

/// An activity, as a number below [`CLASSES`].
pub type Class = u8;

/// The maximum number of activities.
pub const CLASSES: usize = 8;

/// The recognition of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recognition {
    /// The activity of the nearest training window.
    pub class: Class,
    /// The distance to that window.
    pub distance: u16,
}

/// The nearest training window found so far.
///
/// One neighbour, not several: with 40 recordings, half of them for training, one neighbour
/// recognises more windows than three or five.
#[derive(Debug, Clone, Copy)]
pub struct Nearest<'f> {
    of: &'f Features,
    best: Option<Recognition>,
}

impl<'f> Nearest<'f> {
    /// Starts a search for the neighbour of a window.
    pub fn to(of: &'f Features) -> Self {
        Nearest { of, best: None }
    }

    /// Compares one training window. Of two equally near windows the first counts.
    pub fn compare(&mut self, class: Class, trained: &Features) {
        let distance = self.of.distance(trained);
        if self.best.is_none_or(|f| distance < f.distance) {
            self.best = Some(Recognition { class, distance });
        }
    }

    /// The result; `None` without training windows.
    pub fn result(self) -> Option<Recognition> {
        self.best
    }
}

/// The windows of one recording vote for its activity.
#[derive(Debug, Clone, Copy, Default)]
pub struct Votes {
    count: [u16; CLASSES],
    far: [u32; CLASSES],
}

impl Votes {
    /// Adds the vote of a window. A class out of range is ignored.
    pub fn add(&mut self, window: Recognition) {
        let class = usize::from(window.class);
        if let (Some(count), Some(far)) = (self.count.get_mut(class), self.far.get_mut(class)) {
            *count = count.saturating_add(1);
            *far = far.saturating_add(window.distance.into());
        }
    }

    /// The activity with most votes; on a tie the one with the smaller sum of distances. `None`
    /// without votes.
    pub fn verdict(&self) -> Option<Class> {
        (0..CLASSES)
            .filter(|c| self.count[*c] > 0)
            .min_by_key(|c| (core::cmp::Reverse(self.count[*c]), self.far[*c]))
            .map(|c| c as Class)
    }
}
