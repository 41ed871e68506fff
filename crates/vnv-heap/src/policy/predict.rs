use super::{History, MAX_CANDIDATES, NO_FRAME, Policy, PolicyRules};
use nvmem::planted;

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
const OLDEST: u16 = 112;
/// Twice the logarithm of a long time: few objects are older, but [`OLDEST`] is.
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

#[inline(always)]
fn log(units: u16) -> u16 {
    u16::from(LOG[(units & AGES) as usize])
}

impl Predict {
    #[inline(always)]
    fn stamp(self) -> u16 {
        u16::from(self.stamp)
    }

    #[inline(always)]
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

    #[inline(always)]
    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1);
        self.stamp = (self.now >> UNIT & AGES) as u8;
    }

    #[inline(always)]
    fn fresh(&self) -> History {
        (self.stamp() << STAMP) | NEWBORN
    }

    #[inline(always)]
    fn is_current(&self, h: History) -> bool {
        (h >> STAMP) as u8 == self.stamp
    }

    #[inline(always)]
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

    #[inline(always)]
    fn begin_search(&mut self) -> bool {
        // A search must pass each frame within 15 units of time.
        let ages = self.aged != self.stamp;
        self.aged = self.stamp;
        ages
    }

    fn aged(&self, h: History) -> History {
        if self.age(h) > OLDEST {
            ((self.stamp().wrapping_sub(OLDEST) & AGES) << STAMP) | (h & CLASS)
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
