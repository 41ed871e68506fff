//! Retention policies: which checkpoint a full archive replaces.

use nvmem::planted;

/// Decides which checkpoint of an [`Archive`](crate::Archive) a new one replaces.
pub trait Retention {
    /// Returns the index of the checkpoint to replace. `ages[i]` says how many checkpoints ago slot
    /// `i` was written. The checkpoint being taken has age zero, so the newest existing one usually
    /// has age one. `None`: the slot holds no checkpoint to keep.
    ///
    /// The newest is never replaced. If a policy names it, or a slot without a checkpoint, the
    /// oldest is replaced instead.
    fn victim(&self, ages: &[Option<u32>]) -> usize;
}

/// Keeps the newest checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepLast;

/// Keeps one of every so many checkpoints, as far back as there is space, and the newest.
///
/// This is the first scheme of r-kernel (section on checkpoint maintenance): constant intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(
    /// The interval, in checkpoints.
    pub u32,
);

/// Keeps landmarks whose distances grow with their age: many new ones, few old ones. This is the
/// second scheme of r-kernel; the number is its β, at least 2.
///
/// Of two neighbours the older one is at most β times as old as the younger one. With `N` slots the
/// oldest reaches back at least β to the power of (N - 3) / 2 checkpoints, wherever the power is
/// cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landmarks(
    /// β: how many times older than its younger neighbour a checkpoint may be.
    pub u32,
);

impl Retention for KeepLast {
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        oldest(ages)
    }
}

impl Retention for Every {
    /// The oldest checkpoint that is nearer to the next older one than the interval; else the
    /// oldest.
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        oldest_spare(ages, |age| {
            elder(ages, age).is_some_and(|elder| elder - age < self.0)
        })
    }
}

impl Retention for Landmarks {
    /// The oldest checkpoint that its neighbours can do without; if all are needed, the oldest.
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        let factor = u64::from(self.0.max(2));
        oldest_spare(ages, |age| {
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

/// The index of the oldest.
pub(crate) fn oldest(ages: &[Option<u32>]) -> usize {
    let aged = ages.iter().enumerate();
    let aged = aged.filter_map(|(i, age)| age.map(|age| (age, i)));
    aged.max().map_or(0, |(_, i)| i)
}

/// The index of the oldest that `spare` accepts and that is not the newest; else of the oldest.
fn oldest_spare(ages: &[Option<u32>], spare: impl Fn(u32) -> bool) -> usize {
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
