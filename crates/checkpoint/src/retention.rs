//! Retention policies: which checkpoint gives way when there is room for no more.

use nvmem::planted;

/// Decides which checkpoint of an [`Archive`](crate::Archive) gives way to a new one.
pub trait Retention {
    /// The place whose checkpoint is the least worth keeping. `ages` says of each place how many checkpoints ago its own was taken; the one
    /// that is being taken has age zero, the newest of those that are there usually one. `None`: nothing there that could be kept.
    ///
    /// The newest is never given up: a policy that asks for it, or for a place that has none, loses the oldest.
    fn gives_way(&self, ages: &[Option<u32>]) -> usize;
}

/// The last ones that there is room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepLast;

/// One every so many checkpoints, as far back as there is room for, and the newest ones.
///
/// This is the first of the two schemes of r-kernel (section on checkpoint maintenance): intervals between those that are kept are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(
    /// The interval, in checkpoints.
    pub u32,
);

/// Landmarks whose distances grow with their age: many new ones, few old ones. The second scheme of r-kernel, with this number as its β, at least 2.
///
/// Of two neighbours the older one is at most β times as old as the younger one. With `N` places the oldest reaches back at least
/// β to the power of (N - 3) / 2 checkpoints, whatever power cuts do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landmarks(
    /// How much older than the younger one the older one of two neighbours may be.
    pub u32,
);

impl Retention for KeepLast {
    fn gives_way(&self, ages: &[Option<u32>]) -> usize {
        oldest(ages)
    }
}

impl Retention for Every {
    /// The oldest that is nearer to its elder than the interval; when each has its distance, the oldest.
    fn gives_way(&self, ages: &[Option<u32>]) -> usize {
        oldest_of(ages, |age| {
            elder(ages, age).is_some_and(|elder| elder - age < self.0)
        })
    }
}

impl Retention for Landmarks {
    /// The oldest without which its neighbours are near enough; when each is needed, the oldest.
    fn gives_way(&self, ages: &[Option<u32>]) -> usize {
        let factor = u64::from(self.0.max(2));
        oldest_of(ages, |age| {
            let (Some(elder), Some(younger)) = (elder(ages, age), younger(ages, age)) else {
                return false;
            };
            u64::from(elder) <= factor * u64::from(younger) || planted!("checkpoint/landmarks-lost")
        })
    }
}

/// The age of the next older one.
fn elder(ages: &[Option<u32>], than: u32) -> Option<u32> {
    ages.iter().flatten().copied().filter(|a| *a > than).min()
}

/// The age of the next younger one.
fn younger(ages: &[Option<u32>], than: u32) -> Option<u32> {
    ages.iter().flatten().copied().filter(|a| *a < than).max()
}

/// The place of the oldest.
pub(crate) fn oldest(ages: &[Option<u32>]) -> usize {
    let aged = ages.iter().enumerate();
    let aged = aged.filter_map(|(i, age)| age.map(|age| (age, i)));
    aged.max().map_or(0, |(_, i)| i)
}

/// The place of the oldest that can be spared and is not the newest; of the oldest if there is none.
fn oldest_of(ages: &[Option<u32>], spare: impl Fn(u32) -> bool) -> usize {
    let mut found: Option<(u32, usize)> = None;
    for (i, age) in ages.iter().enumerate() {
        if let Some(age) = *age
            && younger(ages, age).is_some()
            && spare(age)
        {
            found = found.max(Some((age, i)));
        }
    }
    found.map_or_else(|| oldest(ages), |(_, i)| i)
}
