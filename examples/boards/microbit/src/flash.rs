//! The flash controller of the nRF51 as a `NorFlash`. embassy-nrf's own driver erases every fourth
//! page only: it takes pages for 4 KiB, which they are on the nRF52, and the nRF51's have 1 KiB.

use core::ops::Range;
use embassy_nrf::pac::{self, nvmc::vals::Wen};
use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash, check_erase, check_read,
    check_write,
};

/// Bytes of a page, the smallest range that can be erased.
pub const PAGE: u32 = 1024;
/// Bytes of a program word.
const WORD: usize = 4;
/// All of it begins at address 0.
const BYTES: usize = 256 * 1024;

/// The flash. The core stands still while the controller works, so no call has to wait for long.
pub struct Flash(pac::nvmc::Nvmc);

/// The range is outside of the flash or not aligned.
#[derive(Debug, Clone, Copy)]
pub struct FlashError(NorFlashErrorKind);

impl NorFlashError for FlashError {
    fn kind(&self) -> NorFlashErrorKind {
        self.0
    }
}

impl ErrorType for Flash {
    type Error = FlashError;
}

impl Flash {
    /// The only driver of the flash: call it once.
    pub fn new() -> Self {
        Flash(pac::NVMC)
    }

    /// Erases the pages of `range` that hold nothing but zeros. Flash leaves the factory erased,
    /// with ones; QEMU's begins with zeros. No page of a record reads so: a cut that stops an
    /// erase leaves any bits, but the record programs its pages again.
    ///
    /// **Power loss**: a page that still reads zeros is erased at the next boot.
    pub fn erase_unprogrammed(&mut self, range: Range<u32>) {
        for page in range.step_by(PAGE as usize) {
            if (0..PAGE).step_by(WORD).all(|i| word(page + i).read() == 0) {
                self.erase_page(page);
            }
        }
    }

    fn erase_page(&mut self, page: u32) {
        self.mode(Wen::Een);
        self.0.erasepcr1().write_value(page);
        self.mode(Wen::Ren);
    }

    /// Waits for the last operation, then permits the next one.
    fn mode(&mut self, mode: Wen) {
        while !self.0.ready().read().ready() {}
        self.0.config().write(|w| w.set_wen(mode));
        while !self.0.ready().read().ready() {}
    }
}

/// A word of the flash, by volatile accesses.
struct Word(*mut u32);

fn word(address: u32) -> Word {
    Word(core::ptr::with_exposed_provenance_mut(address as usize))
}

impl Word {
    fn read(&self) -> u32 {
        // SAFETY: an aligned word of the mapped flash; the callers have checked the range.
        unsafe { self.0.read_volatile() }
    }
    fn program(&self, value: u32) {
        // SAFETY: as above, in the record's pages, where neither code nor constants are.
        unsafe { self.0.write_volatile(value) }
    }
}

impl ReadNorFlash for Flash {
    const READ_SIZE: usize = WORD;

    fn read(&mut self, at: u32, bytes: &mut [u8]) -> Result<(), FlashError> {
        check_read(self, at, bytes.len()).map_err(FlashError)?;
        for (address, chunk) in (at..).step_by(WORD).zip(bytes.chunks_exact_mut(WORD)) {
            chunk.copy_from_slice(&word(address).read().to_le_bytes());
        }
        Ok(())
    }
    fn capacity(&self) -> usize {
        BYTES
    }
}

impl NorFlash for Flash {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = PAGE as usize;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), FlashError> {
        check_erase(self, from, to).map_err(FlashError)?;
        (from..to)
            .step_by(PAGE as usize)
            .for_each(|page| self.erase_page(page));
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), FlashError> {
        check_write(self, at, bytes.len()).map_err(FlashError)?;
        self.mode(Wen::Wen);
        for (address, chunk) in (at..).step_by(WORD).zip(bytes.chunks_exact(WORD)) {
            let mut value = [0; WORD];
            value.copy_from_slice(chunk);
            word(address).program(u32::from_le_bytes(value));
        }
        self.mode(Wen::Ren);
        Ok(())
    }
}
