//! Interrupts: a vector is pending, and accepted between two instructions when GIE is set.

use crate::cpu::{Cpu, PC, SP, SR};
use crate::cycles::ACCEPT;
use crate::flag;
use crate::watch::Observer;

/// The lowest address of a vector; the highest is that of the reset.
const VECTORS: u16 = 0xff80;

/// Makes a vector pending every so many cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Cycles from one interrupt to the next, at least 1.
    pub period: u64,
    /// The address of the vector.
    pub vector: u16,
    /// When it is due next, in the CPU's cycles.
    pub due: u64,
}

impl Cpu {
    /// Makes the interrupt with its vector at this address (0xFF80 to 0xFFFC) pending.
    pub fn raise(&mut self, vector: u16) {
        if vector >= VECTORS {
            self.pending |= 1 << ((vector - VECTORS) / 2);
        }
    }

    /// Whether a vector is pending, accepted or not.
    pub fn is_pending(&self) -> bool {
        self.pending != 0
    }

    /// Starts the timer, or stops it.
    pub fn set_timer(&mut self, timer: Option<Timer>) {
        self.timer = timer;
        self.due = timer.map_or(u64::MAX, |t| t.due);
    }

    /// The timer as it stands.
    pub fn timer(&self) -> Option<Timer> {
        self.timer
    }

    /// Makes the timer's vector pending when it is due; several periods that went by count as one.
    pub(crate) fn tick(&mut self) {
        let Some(mut t) = self.timer else {
            return self.due = u64::MAX;
        };
        while t.due <= self.cycles {
            t.due += t.period.max(1);
        }
        self.raise(t.vector);
        self.set_timer(Some(t));
    }

    /// Accepts the pending interrupt of the highest priority, if it may.
    ///
    /// The instruction behind the one that sets GIE is always executed first.
    pub(crate) fn accept<O: Observer>(&mut self, o: &mut O) -> bool {
        let may = self.regs[SR] & flag::GIE != 0 && self.enabled_at != self.instructions;
        if self.pending == 0 || !may {
            return false;
        }
        let highest = 63 - self.pending.leading_zeros();
        self.pending &= !(1 << highest);
        let here = self.regs[PC];
        for value in [here, self.regs[SR]] {
            self.regs[SP] = self.regs[SP].wrapping_sub(2);
            self.store(self.regs[SP], false, value, here, o);
        }
        self.regs[SR] &= flag::SCG0;
        self.regs[PC] = self.word(VECTORS + 2 * highest as u16) & !1;
        self.cycles += ACCEPT;
        true
    }
}
