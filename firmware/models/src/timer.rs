//! A timer that expires again and again.

use crate::Chip;

/// A timer with a period. It stands still after a reset.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Timer {
    period_ns: u64,
    left: u64,
    expired: bool,
}

impl Timer {
    /// Sets the period, and starts with a whole one; 0 stops it.
    pub fn set_period(&mut self, ns: u64) {
        (self.period_ns, self.left) = (ns, ns);
    }

    /// Reads it back.
    pub fn period(&self) -> u64 {
        self.period_ns
    }

    /// Whether it has expired since that was cleared.
    pub fn expired(&self) -> bool {
        self.expired
    }

    /// Clears that.
    pub fn clear(&mut self) {
        self.expired = false;
    }
}

impl Chip for Timer {
    fn reset(&mut self) {
        *self = Timer::default();
    }

    fn elapse(&mut self, ns: u64) {
        if self.period_ns == 0 {
            return;
        }
        if ns < self.left {
            self.left -= ns;
            return;
        }
        self.expired = true;
        self.left = self.period_ns - (ns - self.left) % self.period_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_expires_again_and_again() {
        let mut t = Timer::default();
        t.elapse(1000);
        assert!(!t.expired());
        t.set_period(30);
        t.elapse(29);
        assert!(!t.expired());
        t.elapse(1);
        assert!(t.expired());
        t.clear();
        // Two periods at once are one flag.
        t.elapse(65);
        assert!(t.expired());
        t.clear();
        t.elapse(24);
        assert!(!t.expired());
        t.elapse(1);
        assert!(t.expired());
        t.reset();
        assert_eq!((t.period(), t.expired()), (0, false));
    }
}
