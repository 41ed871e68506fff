//! A NOR flash in RAM that a reset keeps: four pages of 4 KiB, programmed by words of 4 bytes.

use embassy_futures::yield_now;
use nv_replay::nvmem::device::{AsyncMedium, Contract, EraseUnit, Misuse, Torn, check_range};

const WORDS: usize = 4096;
const PAGE: usize = 1024;
/// An erase lets the other tasks run after so many words.
const PIECE: usize = 64;
const ERASED: u32 = u32::MAX;

/// Its content: words.
pub type Pages = [u32; WORDS];
/// Its size.
pub const BYTES: u32 = 4 * WORDS as u32;

/// The driver.
pub struct Flash(&'static mut Pages);

impl Flash {
    /// The flash with this content, which may be anything.
    pub fn new(pages: &'static mut Pages) -> Self {
        Flash(pages)
    }

    /// The words at these bytes.
    fn words(&mut self, at: u32, len: usize) -> Result<&mut [u32], Misuse> {
        check_range(at, len, 4, BYTES)?;
        let from = at as usize / 4;
        let words = self.0.get_mut(from..from + len / 4);
        words.ok_or(Misuse::OutOfRange)
    }
}

/// Stores a word that a reset may find.
fn store(to: &mut u32, word: u32) {
    // SAFETY: `to` is a reference. The store is neither left out nor moved.
    unsafe { (to as *mut u32).write_volatile(word) }
}

impl AsyncMedium for Flash {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "ram-flash",
        read_size: 1,
        write_size: 4,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: 4 * PAGE as u32,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
    };

    fn capacity(&self) -> u32 {
        BYTES
    }

    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        check_range(at, buf.len(), 1, BYTES)?;
        let words = self.0.iter().skip(at as usize / 4);
        let bytes = words.flat_map(|w| w.to_le_bytes());
        for (to, from) in buf.iter_mut().zip(bytes.skip(at as usize % 4)) {
            *to = from;
        }
        Ok(())
    }

    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        let (from, _) = bytes.as_chunks();
        for (to, from) in self.words(at, bytes.len())?.iter_mut().zip(from) {
            if *to != ERASED {
                return Err(Misuse::NotErased);
            }
            let word = u32::from_le_bytes(*from);
            store(to, word | 0x5A5A_5A5A);
            yield_now().await;
            store(to, word);
        }
        Ok(())
    }

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        let len = to.saturating_sub(from) as usize;
        check_range(from, len, Self::CONTRACT.erase_size(), BYTES)?;
        for piece in self.words(from, len)?.chunks_mut(PIECE) {
            for word in piece {
                store(word, *word | 0xA5A5_A5A5);
                store(word, ERASED);
            }
            yield_now().await;
        }
        Ok(())
    }
}
