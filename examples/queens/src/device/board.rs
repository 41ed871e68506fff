//! The board support: the flash driver and a console. The machine is that of
//! `cargo xtask demo checkpoint`; firmware/rig/src/demo/board.rs describes its registers.

use checkpoint::{Cost, Images, Log};
use core::fmt::{self, Debug, Write};
use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};
use nvmem::adapter::FromNor;

const FLASH: *mut u32 = 0x4000_0000 as *mut u32;
const ADDRESS: usize = 0;
const BUFFER: usize = 1;
const BYTES: usize = 2;
const COMMAND: usize = 3;
const REFUSED: usize = 4;
const CONSOLE: *mut u32 = 0x4000_0020 as *mut u32;
const VALUE: *mut u32 = 0x4000_0024 as *mut u32;
const EVENT: *mut u32 = 0x4000_0028 as *mut u32;
const SIZE: *const u32 = 0x4000_002C as *const u32;

/// Half pages of 128 bytes, erase units of 256 bytes, erased to 0: as in an STM32L1.
pub type Flash = FromNor<Driver, 0x00>;
const HALF_PAGE: usize = 128;
const UNIT: usize = 256;
/// The cost of its operations; comparing is as cheap as reading mapped flash.
const COST: Cost = Cost::STM32L1.with_compare_cost(Cost::MAPPED_PJ, 80);
/// The size of this flash in bytes. The program lies in another flash, so the images may have all
/// of this one.
pub const CAPACITY: u32 = 64 * 1024;

/// The flash for checkpoint images. The device runs one build in its life, so any build number will
/// do.
pub fn images<const N: usize>() -> Images<Flash, N> {
    match Images::open(FromNor::with_erased(Driver), 0..CAPACITY, 1) {
        Ok(images) => images,
        Err(e) => fail(&e),
    }
}

/// The flash as a log of up to 168 cells of 128 bytes.
pub fn log() -> Log<Flash, 168, 256> {
    match Log::open(FromNor::with_erased(Driver), 0..CAPACITY, 1) {
        Ok(log) => log.with_cost(&COST),
        Err(e) => fail(&e),
    }
}

/// The flash driver. The core waits during its operations.
#[derive(Debug)]
pub struct Driver;

/// The flash rejected a command: out of range, misaligned, or not erased.
#[derive(Debug, Clone, Copy)]
pub struct FlashError;

impl NorFlashError for FlashError {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}
impl ErrorType for Driver {
    type Error = FlashError;
}

fn command(code: u32, at: u32, buffer: usize, bytes: usize) -> Result<(), FlashError> {
    // SAFETY: the registers of the flash. The empty assembly completes pending writes to the
    // buffer.
    unsafe {
        FLASH.add(ADDRESS).write_volatile(at);
        FLASH.add(BUFFER).write_volatile(buffer as u32);
        FLASH.add(BYTES).write_volatile(bytes as u32);
        core::arch::asm!("");
        FLASH.add(COMMAND).write_volatile(code);
        core::arch::asm!("");
        match FLASH.add(REFUSED).read_volatile() {
            0 => Ok(()),
            _ => Err(FlashError),
        }
    }
}

impl ReadNorFlash for Driver {
    const READ_SIZE: usize = 1;
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), FlashError> {
        command(1, at, into.as_mut_ptr().expose_provenance(), into.len())
    }
    fn capacity(&self) -> usize {
        CAPACITY as usize
    }
}

impl NorFlash for Driver {
    const WRITE_SIZE: usize = HALF_PAGE;
    const ERASE_SIZE: usize = UNIT;
    fn erase(&mut self, from: u32, to: u32) -> Result<(), FlashError> {
        command(3, from, 0, to.saturating_sub(from) as usize)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), FlashError> {
        command(2, at, bytes.as_ptr().expose_provenance(), bytes.len())
    }
}

/// Events that the demo counts; other programs do not need them.
pub enum Event {
    /// The program starts from the beginning.
    Started = 1,
    /// A checkpoint was taken.
    Taken = 2,
    /// A checkpoint was restored.
    Restored = 3,
    /// The result is printed.
    Finished = 4,
    /// An error occurred.
    Failed = 5,
}

/// Reports an event to the demo.
pub fn event(event: Event, value: u32) {
    // SAFETY: registers of the board.
    unsafe {
        VALUE.write_volatile(value);
        EVENT.write_volatile(event as u32);
    }
}

/// The requested board size, as set by switches.
pub fn requested_size() -> u8 {
    // SAFETY: as above.
    unsafe { SIZE.read_volatile() as u8 }
}

/// A serial line.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for b in s.bytes() {
            // SAFETY: as above.
            unsafe { CONSOLE.write_volatile(b.into()) }
        }
        Ok(())
    }
}

/// Prints an error and stops.
pub fn fail<E: Debug>(why: &E) -> ! {
    // The console takes everything.
    let _ = write!(Console, "{why:?}");
    event(Event::Failed, 0);
    cortex_m::asm::udf()
}
