//! Interrupts: a vector is pending, and accepted between two instructions when GIE is set.

use crate::cpu::{Cpu, PC, SP, SR};
use crate::cycles::ACCEPT;
use crate::flag;
use crate::watch::Observer;

/// The lowest address of a vector; the highest is that of the reset.
pub(crate) const VECTORS: u16 = 0xff80;

impl Cpu {
    /// Makes the interrupt with its vector at this address (0xFF80 to 0xFFFC) pending.
    pub fn raise(&mut self, vector: u16) {
        if vector >= VECTORS {
            self.pending |= 1 << ((vector - VECTORS) / 2);
        }
    }

    /// Whether the interrupt with its vector at this address is pending.
    pub(crate) fn pend(&mut self, vector: u16, pending: bool) {
        let bit = 1 << ((vector - VECTORS) / 2);
        self.pending = if pending {
            self.pending | bit
        } else {
            self.pending & !bit
        };
    }

    /// Whether a vector is pending, accepted or not.
    pub fn is_pending(&self) -> bool {
        self.pending != 0
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
        self.timer_served(VECTORS + 2 * highest as u16);
        let here = self.regs[PC];
        for value in [here, self.regs[SR]] {
            self.regs[SP] = self.regs[SP].wrapping_sub(2);
            self.store(self.regs[SP], false, value, here, o);
        }
        self.regs[SR] &= flag::SCG0;
        self.wait(VECTORS + 2 * highest as u16, false);
        self.regs[PC] = self.word(VECTORS + 2 * highest as u16) & !1;
        self.cycles += ACCEPT;
        true
    }
}
