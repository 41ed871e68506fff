//! A number that survives power cuts, in two sectors of NOR flash: a store as many products have
//! it.
//!
//! ```text
//! sector 0 | seq 7 | value | check |      newer valid record: counts
//! sector 1 | seq 6 | value | check |      older record: erased and written by the next `set`
//! ```
//!
//! `tests/power.rs` cuts its power. [`Settings::open_naive`] loses acknowledged settings, in a way
//! that no bench test shows; [`Settings::open`] does not.
#![no_std]

use embedded_storage::nor_flash::{MultiwriteNorFlash, NorFlash};

/// Sequence number, value, check word; little-endian.
type Record = [u8; 12];

fn record(seq: u32, value: u32) -> Record {
    let mut r = [0; 12];
    let check = (seq ^ value.rotate_left(16) ^ 0x5e77_1465).wrapping_mul(0x9e37_79b1);
    r[0..4].copy_from_slice(&seq.to_le_bytes());
    r[4..8].copy_from_slice(&value.to_le_bytes());
    r[8..12].copy_from_slice(&check.to_le_bytes());
    r
}

fn parse(r: Record) -> Option<(u32, u32)> {
    let [seq, value, _] =
        [0, 4, 8].map(|i| u32::from_le_bytes([r[i], r[i + 1], r[i + 2], r[i + 3]]));
    (record(seq, value) == r).then_some((seq, value))
}

/// One `u32` in two sectors; the newer valid one counts.
pub struct Settings<F> {
    flash: F,
    slot: u32,
    seq: u32,
    value: u32,
}

impl<F: NorFlash> Settings<F> {
    const SECTOR: u32 = F::ERASE_SIZE as u32;

    /// Finds the newer valid record. Looks correct, but is not.
    pub fn open_naive(mut flash: F) -> Result<Self, F::Error> {
        let (mut newest, mut seq, mut value) = (1, 0, 0);
        for slot in 0..2 {
            let mut r = [0; 12];
            flash.read(slot * Self::SECTOR, &mut r)?;
            if let Some((s, v)) = parse(r)
                && s > seq
            {
                (newest, seq, value) = (slot, s, v);
            }
        }
        Ok(Settings {
            flash,
            slot: newest,
            seq,
            value,
        })
    }

    /// The setting; 0 at first.
    pub fn get(&self) -> u32 {
        self.value
    }

    /// Changes the setting. Writes the other sector, so the old value remains until the new one is
    /// valid.
    pub fn set(&mut self, value: u32) -> Result<(), F::Error> {
        let slot = 1 - self.slot;
        let seq = self.seq + 1;
        let at = slot * Self::SECTOR;
        self.flash.erase(at, at + Self::SECTOR)?;
        self.flash.write(at, &record(seq, value))?;
        (self.slot, self.seq, self.value) = (slot, seq, value);
        Ok(())
    }
}

impl<F: MultiwriteNorFlash> Settings<F> {
    /// Finds the newer valid record and programs it again before anything relies on it. A cut while
    /// its last word was programmed may have left an unstable word, which reads correctly now and
    /// differently later.
    ///
    /// For flash whose words may be programmed twice, as SPI NOR allows.
    pub fn open(flash: F) -> Result<Self, F::Error> {
        let mut s = Self::open_naive(flash)?;
        if s.seq > 0 {
            s.flash
                .write(s.slot * Self::SECTOR, &record(s.seq, s.value))?;
        }
        Ok(s)
    }
}
