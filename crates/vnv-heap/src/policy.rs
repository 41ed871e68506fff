//! Replacement policies: which dirty object to clean and which resident one to evict.
//!
//! A policy keeps 11 bits of history with each resident object, and a few bytes for the whole heap.
//! It ranks candidates; the cache searches for them.

#[cfg(test)]
mod tests;

use nvmem::planted;

/// A replacement policy: [`Predict`] or [`Lru`].
pub trait Policy: PolicyRules {}

/// An object's access history: 11 bits; the upper seven are a time stamp.
pub type History = u16;

/// No frame: an unused entry of [`PolicyRules::candidates`].
pub const NO_FRAME: u16 = 0x1FFF;

/// The most frames that a policy remembers.
pub const MAX_CANDIDATES: usize = 6;

/// The functions of a policy. Sealed: the module is private.
pub trait PolicyRules: Copy {
    /// How many frames it remembers, at most [`MAX_CANDIDATES`].
    const CANDIDATES: usize;
    /// How many further candidates a search collects.
    const SEARCH_NEW: usize;
    /// How many frames a search examines before it stops with what it has.
    const SEARCH_MAX: isize;

    /// The initial state.
    fn new() -> Self;
    /// Frames that the last search left as good candidates, the best first. Before them those that
    /// became dirty or resident since, the youngest first. The cache fills it.
    fn candidates(&mut self) -> &mut [u16];
    /// Advances time: an object was updated or became resident.
    fn tick(&mut self);
    /// The history of an object that becomes resident.
    fn fresh(&self) -> History;
    /// Whether the last access was so recent that one now leaves this history unchanged. Quick, and
    /// false where only [`PolicyRules::is_same_use`] tells.
    fn is_current(&self, h: History) -> bool;
    /// Whether an access now leaves this history unchanged. Accesses close together count once:
    /// page in, read and write are one use.
    fn is_same_use(&self, h: History) -> bool;
    /// The history after an access now.
    fn accessed(&mut self, h: History) -> History;
    /// Begins a search. Whether it must age the histories that it passes.
    fn begin_search(&mut self) -> bool;
    /// The history, clamped so that an old time stamp does not wrap. Called for every frame that a
    /// search passes.
    fn aged(&self, h: History) -> History;
    /// How good a candidate it is: the highest is evicted or cleaned.
    fn rank(&self, h: History) -> u16;
}

/// Least recently used first. The smallest code; searches all resident objects.
///
/// Good where recent objects are used again. A cycle that does not fit into RAM defeats it.
#[derive(Debug, Clone, Copy)]
pub struct Lru {
    now: u16,
}

/// A history is a time stamp only.
const LRU_MASK: u16 = 0x7FF;
/// The age at which an object stops ageing.
const LRU_OLDEST: u16 = LRU_MASK / 4 * 3;

impl Lru {
    fn age(self, h: History) -> u16 {
        self.now.wrapping_sub(h) & LRU_MASK
    }
}

impl Policy for Lru {}

impl PolicyRules for Lru {
    const CANDIDATES: usize = 0;
    const SEARCH_NEW: usize = usize::MAX;
    const SEARCH_MAX: isize = isize::MAX;

    fn new() -> Self {
        Lru { now: 0 }
    }

    fn candidates(&mut self) -> &mut [u16] {
        &mut []
    }

    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1) & LRU_MASK;
    }

    fn fresh(&self) -> History {
        self.now
    }

    fn is_current(&self, h: History) -> bool {
        h == self.now
    }

    fn is_same_use(&self, h: History) -> bool {
        h == self.now
    }

    fn accessed(&mut self, _: History) -> History {
        self.now
    }

    fn begin_search(&mut self) -> bool {
        true
    }

    fn aged(&self, h: History) -> History {
        if self.age(h) > LRU_OLDEST {
            self.now.wrapping_sub(LRU_OLDEST) & LRU_MASK
        } else {
            h
        }
    }

    fn rank(&self, h: History) -> u16 {
        self.age(h)
    }
}

/// Predicts when each object is updated next, and evicts the one that is needed last. The default.
///
/// An object has a class: the smoothed logarithm of the gaps between its updates. A table of 13
/// bytes learns which gap follows which class. An overdue object ranks by its age, the oldest
/// first. Others rank by their prediction, among equals the youngest first. So the policy keeps
/// part of a cycle that does not fit, as well as frequent objects, and drops a group that is no
/// longer used.
#[derive(Debug, Clone, Copy)]
pub struct Predict {
    /// Time in updates. Stamps are its bits from [`UNIT`] on.
    now: u16,
    /// The current stamp.
    stamp: u8,
    /// When a search last aged the histories.
    aged: u8,
    candidates: [u16; MAX_CANDIDATES],
    /// For each class, twice the logarithm of the gap that follows.
    follows: [u8; CLASSES],
}

// A history: a stamp of 7 bits in units of 8 updates, and a class of 4.
const UNIT: u32 = 3;
const STAMP: u32 = 4;
const CLASS: u16 = 0xF;
const AGES: u16 = 0x7F;
const CLASSES: usize = 13;
/// The class of an object that was updated once, or in one burst.
const NEWBORN: u16 = CLASSES as u16 - 1;
/// The logarithm of one unit in half octaves: class 0.
const LEAST: u16 = 3;
/// The age at which an object stops ageing: early enough that a search comes by before the stamp
/// wraps.
const OLDEST_STAMP: u16 = 112;
/// Twice the logarithm of a long time: few objects are older, but [`OLDEST_STAMP`] is.
const NEVER: u8 = 2 * LOG[64];
/// An object that is older than predicted by a quarter of an octave is overdue.
const LATE: u16 = 4;

/// Logarithms of times of 0 to 127 units: 0 to 127, 16 to the octave.
const LOG: [u8; 128] = {
    let mut log = [0; 128];
    let mut i = 0;
    while i < 128 {
        let u: usize = 2 * i + 1;
        let octave = u.ilog2() as usize;
        log[i] = ((octave << 4) + ((u << 4) >> octave) - 16) as u8;
        i += 1;
    }
    log
};

fn log(units: u16) -> u16 {
    u16::from(LOG[(units & AGES) as usize])
}

impl Predict {
    fn stamp(self) -> u16 {
        u16::from(self.stamp)
    }

    fn age(self, h: History) -> u16 {
        self.stamp().wrapping_sub(h >> STAMP) & AGES
    }
}

impl Policy for Predict {}

impl PolicyRules for Predict {
    const CANDIDATES: usize = MAX_CANDIDATES;
    const SEARCH_NEW: usize = 3;
    const SEARCH_MAX: isize = 64;

    fn new() -> Self {
        // Initially each gap is expected to repeat. A new object is expected to be needed last, and
        // is evicted when it stays unused for very long.
        let mut follows = [NEVER; CLASSES];
        for (class, lg) in follows[..NEWBORN as usize].iter_mut().enumerate() {
            *lg = (class as u8 + LEAST as u8) << 4;
        }
        Predict {
            now: 0,
            stamp: 0,
            aged: 0,
            candidates: [NO_FRAME; MAX_CANDIDATES],
            follows,
        }
    }

    fn candidates(&mut self) -> &mut [u16] {
        &mut self.candidates
    }

    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1);
        self.stamp = (self.now >> UNIT & AGES) as u8;
    }

    fn fresh(&self) -> History {
        (self.stamp() << STAMP) | NEWBORN
    }

    fn is_current(&self, h: History) -> bool {
        (h >> STAMP) as u8 == self.stamp
    }

    fn is_same_use(&self, h: History) -> bool {
        self.age(h) <= (h & CLASS == NEWBORN) as u16
    }

    fn accessed(&mut self, h: History) -> History {
        let (age, class) = (self.age(h), h & CLASS);
        if self.is_same_use(h) {
            return h;
        }
        let lg = log(age);
        let follows = &mut self.follows[(class as usize).min(CLASSES - 1)];
        if !planted!("vnv-heap/nothing-learnt") {
            let was = i16::from(*follows);
            *follows = (was + ((2 * lg as i16 - was) >> 4)) as u8;
        }
        let gap = (lg >> 3).saturating_sub(LEAST).min(NEWBORN - 1);
        let class = if class == NEWBORN {
            gap
        } else {
            // A quarter of the way, rounded at random.
            (3 * class + gap + (self.now.wrapping_mul(40503) >> 14)) >> 2
        };
        (self.stamp() << STAMP) | class
    }

    fn begin_search(&mut self) -> bool {
        // A search must pass each frame within 15 units of time.
        let ages = self.aged != self.stamp;
        self.aged = self.stamp;
        ages
    }

    fn aged(&self, h: History) -> History {
        if self.age(h) > OLDEST_STAMP {
            ((self.stamp().wrapping_sub(OLDEST_STAMP) & AGES) << STAMP) | (h & CLASS)
        } else {
            h
        }
    }

    #[inline(never)]
    fn rank(&self, h: History) -> u16 {
        let age = self.age(h);
        let predicted = u16::from(self.follows[((h & CLASS) as usize).min(CLASSES - 1)]) >> 1;
        let lg = log(age);
        if lg > predicted + LATE {
            (lg << 7) | age
        } else {
            (predicted << 7) | (AGES - age)
        }
    }
}
