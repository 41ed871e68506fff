//! The hardware multiplier MPY32 of the FR5xx: unsigned products of 16 and of 32 bits, and sums of
//! these.
//!
//! SLAU367, chapter "32-Bit Hardware Multiplier (MPY32)". The last store of a second factor begins
//! an operation. Its result is there at once: on the device it takes 3 to 11 cycles, less than an
//! instruction that reads a half of it by its address, lower halves first. Signed factors, bytes
//! and saturation are not modelled; a store to these registers is a [mistake](Cpu::misused).

use crate::cpu::{Cpu, SR};
use crate::flag;

const FIRST: u16 = 0x04C0;
const LAST: u16 = 0x04EC;
const MPY: u16 = 0x04C0;
const OP2: u16 = 0x04C8;
const RESLO: u16 = 0x04CA;
const MPY32L: u16 = 0x04D0;
const MPY32H: u16 = 0x04D2;
const MAC32L: u16 = 0x04D8;
const MAC32H: u16 = 0x04DA;
const OP2L: u16 = 0x04E0;
const OP2H: u16 = 0x04E2;
const RES0: u16 = 0x04E4;

/// The first factor, and what the program has done that it must not do. Results and the second
/// factor are in the CPU's memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mpy32 {
    factor: u32,
    adds: bool,
    misused: Option<&'static str>,
}

impl Cpu {
    /// Connects a multiplier, or none.
    pub fn set_multiplier(&mut self, there: bool) {
        self.multiplier = there.then(Mpy32::default);
    }

    /// What the program has done with the multiplier that it must not do.
    pub fn misused(&self) -> Option<&'static str> {
        self.multiplier.and_then(|m| m.misused)
    }

    /// After a store.
    #[inline]
    pub(crate) fn after_multiplier(&mut self, address: u16, byte: bool) {
        if (FIRST..=LAST).contains(&address) && self.multiplier.is_some() {
            self.multiply(address, byte);
        }
    }

    fn multiply(&mut self, address: u16, byte: bool) {
        let Some(mut m) = self.multiplier else { return };
        let value = u32::from(self.word(address));
        let result = |cpu: &Cpu| {
            (0..4)
                .rev()
                .fold(0, |n, i| n << 16 | u64::from(cpu.word(RES0 + 2 * i)))
        };
        let mut second = None;
        match address {
            _ if byte => m.misused = Some("a byte is stored to the multiplier"),
            _ if self.regs[SR] & flag::GIE != 0 => {
                m.misused = Some("the multiplier is used with interrupts enabled");
            }
            MPY | MPY32L => (m.factor, m.adds) = (value, false),
            MAC32L => (m.factor, m.adds) = (value, true),
            MPY32H | MAC32H => m.factor = m.factor & 0xFFFF | value << 16,
            OP2 => second = Some(value),
            OP2L => {}
            OP2H => second = Some(u32::from(self.word(OP2L)) | value << 16),
            _ => m.misused = Some("this register of the multiplier is not modelled"),
        }
        if let Some(second) = second {
            let sum = if m.adds { result(self) } else { 0 };
            let product = sum.wrapping_add(u64::from(m.factor) * u64::from(second));
            for (i, at) in (0..).zip([RES0, RES0 + 2, RES0 + 4, RES0 + 6]) {
                self.set_word(at, (product >> (16 * i)) as u16);
            }
            self.set_word(RESLO, product as u16);
            self.set_word(RESLO + 2, (product >> 16) as u16);
        }
        self.multiplier = Some(m);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(stores: &[(u16, u16)]) -> Cpu {
        let mut cpu = Cpu::new();
        cpu.set_multiplier(true);
        for (at, value) in stores {
            cpu.set_word(*at, *value);
            cpu.after_multiplier(*at, false);
        }
        cpu
    }

    #[test]
    fn products() {
        let cpu = with(&[(MPY, 0xFFFF), (OP2, 0xFFFF)]);
        assert_eq!([cpu.word(RESLO), cpu.word(RESLO + 2)], [1, 0xFFFE]);
        let wide = [(MPY32L, 2), (MPY32H, 1), (OP2L, 0xFFFF), (OP2H, 0xFFFF)];
        let cpu = with(&wide);
        let result = [0, 2, 4, 6].map(|n| cpu.word(RES0 + n));
        // 0x10002 * 0xFFFFFFFF
        assert_eq!(result, [0xFFFE, 0xFFFE, 0x0001, 0x0001]);
        // And 3 * 5.
        let added = [(MAC32L, 3), (MAC32H, 0), (OP2L, 5), (OP2H, 0)];
        let cpu = with(&[wide, added].concat());
        let result = [0, 2, 4, 6].map(|n| cpu.word(RES0 + n));
        assert_eq!(result, [0x000D, 0xFFFF, 0x0001, 0x0001]);
        assert_eq!(cpu.misused(), None);
    }

    #[test]
    fn what_is_no_use() {
        assert!(with(&[(MPY + 2, 1)]).misused().is_some());
        let mut cpu = with(&[]);
        cpu.after_multiplier(MPY, true);
        assert!(cpu.misused().is_some());
        let mut cpu = with(&[]);
        cpu.regs[SR] = flag::GIE;
        cpu.after_multiplier(MPY, false);
        assert!(cpu.misused().is_some());
    }
}
