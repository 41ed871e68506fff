use super::{History, Policy, PolicyRules};

/// Least recently used first. The smallest code; searches all resident objects.
///
/// Good where recent objects are used again. A cycle that does not fit into RAM defeats it.
#[derive(Debug, Clone, Copy)]
pub struct Lru {
    now: u16,
}

/// A history is a time stamp only.
const MASK: u16 = 0x7FF;
/// The age at which an object stops ageing.
const OLDEST: u16 = MASK / 4 * 3;

impl Lru {
    fn age(self, h: History) -> u16 {
        self.now.wrapping_sub(h) & MASK
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

    #[inline(always)]
    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1) & MASK;
    }

    #[inline(always)]
    fn fresh(&self) -> History {
        self.now
    }

    #[inline(always)]
    fn is_current(&self, h: History) -> bool {
        h == self.now
    }

    #[inline(always)]
    fn is_same_use(&self, h: History) -> bool {
        h == self.now
    }

    #[inline(always)]
    fn accessed(&mut self, _: History) -> History {
        self.now
    }

    #[inline(always)]
    fn begin_search(&mut self) -> bool {
        true
    }

    #[inline(always)]
    fn aged(&self, h: History) -> History {
        if self.age(h) > OLDEST {
            self.now.wrapping_sub(OLDEST) & MASK
        } else {
            h
        }
    }

    #[inline(always)]
    fn rank(&self, h: History) -> u16 {
        self.age(h)
    }
}
