//! Flash, as a model on mapped memory.

use crate::Mapped;
use nvmem::device::{Contract, EraseUnit, Medium, Torn};
use nvmem::{Region, Unit};

/// Bytes of an erase unit of the flash, and of a word.
pub(crate) const ERASE: u32 = 128;
const WORD: u32 = 4;

/// NOR flash on mapped memory: a word is programmed once after an erase. The rig lets a cut leave
/// any word between two values that was being written.
pub(crate) struct Flash<'r, M: Mapped, const ERASED: u8>(pub(crate) Region<'r, M>);

/// What the flash refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refused {
    Range,
    NotErased,
}

impl<M: Mapped, const ERASED: u8> Flash<'_, M, ERASED> {
    const BLANK: u32 = u32::from_le_bytes([ERASED; 4]);

    fn check(&self, at: u32, len: u32, of: u32) -> Result<(), Refused> {
        let fits = at
            .checked_add(len)
            .is_some_and(|end| end <= self.capacity());
        (fits && at.is_multiple_of(of) && len.is_multiple_of(of))
            .then_some(())
            .ok_or(Refused::Range)
    }

    fn word(&self, at: u32) -> u32 {
        let (at, unit) = (at as usize, M::Unit::BYTES);
        // SAFETY: inside of the region, which nobody else has; units of two bytes are halves of a
        // word.
        unsafe {
            if unit == 4 {
                self.0.load(at)
            } else {
                self.0.load(at) & 0xFFFF | self.0.load(at + unit) << 16
            }
        }
    }

    fn set(&self, at: u32, word: u32) {
        let (at, unit) = (at as usize, M::Unit::BYTES);
        // SAFETY: as above.
        unsafe {
            self.0.store(at, word);
            if unit == 2 {
                self.0.store(at + unit, word >> 16);
            }
        }
    }
}

impl<M: Mapped, const ERASED: u8> Medium for Flash<'_, M, ERASED> {
    type Error = Refused;

    const CONTRACT: Contract = Contract {
        name: "flash",
        read_size: WORD,
        write_size: WORD,
        unit: WORD,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: ERASE,
            erased: ERASED,
            write_once: true,
            endurance: 10_000,
        }),
    };

    fn capacity(&self) -> u32 {
        self.0.len() as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        self.check(at, buf.len() as u32, WORD)?;
        for (to, at) in buf.chunks_exact_mut(4).zip((at..).step_by(4)) {
            to.copy_from_slice(&self.word(at).to_le_bytes());
        }
        Ok(())
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.check(at, bytes.len() as u32, WORD)?;
        for (from, at) in bytes.chunks_exact(4).zip((at..).step_by(4)) {
            if self.word(at) != Self::BLANK {
                return Err(Refused::NotErased);
            }
            self.set(at, u32::from_le_bytes([from[0], from[1], from[2], from[3]]));
        }
        Ok(())
    }

    /// In an order in which erased words and old ones lie among each other when it is cut.
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        self.check(from, to.saturating_sub(from), ERASE)?;
        for unit in (from..to).step_by(ERASE as usize) {
            for i in 0..ERASE / WORD {
                self.set(unit + i * 13 % (ERASE / WORD) * WORD, Self::BLANK);
            }
        }
        Ok(())
    }
}
