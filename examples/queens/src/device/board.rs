//! What a board's support crate would bring: the driver of the flash, and a console. The machine is that of `cargo xtask demo
//! checkpoint`; its registers are described there, in firmware/rig/src/demo/board.rs.

use checkpoint::{Cost, Images, Log};
use core::fmt::{self, Debug, Write};
use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};
use nvmem::adapter::FromNor;

const FLASH: *mut u32 = 0x4000_0000 as *mut u32;
const AT: usize = 0;
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
/// What its operations take, where comparing is as cheap as reading mapped flash.
const COST: Cost = Cost::STM32L1.comparing(Cost::MAPPED_PJ, 80);
/// Bytes of the flash.
pub const CAPACITY: u32 = 64 * 1024;

/// The flash of the board. For one program's life there is one build, so the build's number is any.
pub fn images<const N: usize>() -> Images<Flash, N> {
    match Images::open(FromNor::with_erased(Driver), 0..CAPACITY, 1) {
        Ok(images) => images,
        Err(e) => fail(&e),
    }
}

/// The same as a log of up to 168 cells of 128 bytes.
pub fn log() -> Log<Flash, 168, 256> {
    match Log::open(FromNor::with_erased(Driver), 0..CAPACITY, 1) {
        Ok(log) => log.with_cost(&COST),
        Err(e) => fail(&e),
    }
}

/// The driver. The core waits while the flash works.
#[derive(Debug)]
pub struct Driver;

/// The flash refused: out of range, misaligned, or not erased.
#[derive(Debug, Clone, Copy)]
pub struct Refused;

impl NorFlashError for Refused {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}
impl ErrorType for Driver {
    type Error = Refused;
}

fn command(code: u32, at: u32, buffer: usize, bytes: usize) -> Result<(), Refused> {
    // SAFETY: the registers of the flash. The empty assembly ends what is pending in the buffer.
    unsafe {
        FLASH.add(AT).write_volatile(at);
        FLASH.add(BUFFER).write_volatile(buffer as u32);
        FLASH.add(BYTES).write_volatile(bytes as u32);
        core::arch::asm!("");
        FLASH.add(COMMAND).write_volatile(code);
        core::arch::asm!("");
        match FLASH.add(REFUSED).read_volatile() {
            0 => Ok(()),
            _ => Err(Refused),
        }
    }
}

impl ReadNorFlash for Driver {
    const READ_SIZE: usize = 1;
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Refused> {
        command(1, at, into.as_mut_ptr().expose_provenance(), into.len())
    }
    fn capacity(&self) -> usize {
        CAPACITY as usize
    }
}

impl NorFlash for Driver {
    const WRITE_SIZE: usize = HALF_PAGE;
    const ERASE_SIZE: usize = UNIT;
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        command(3, from, 0, to.saturating_sub(from) as usize)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        command(2, at, bytes.as_ptr().expose_provenance(), bytes.len())
    }
}

/// What the demo counts; a program of yours has no use for it.
pub enum Event {
    /// The program begins.
    Started = 1,
    /// A checkpoint was taken.
    Taken = 2,
    /// One was restored.
    Restored = 3,
    /// The result is said.
    Finished = 4,
    /// Something failed.
    Failed = 5,
}

/// Tells the outside.
pub fn event(event: Event, value: u32) {
    // SAFETY: registers of the board.
    unsafe {
        VALUE.write_volatile(value);
        EVENT.write_volatile(event as u32);
    }
}

/// The size of the board that is asked for, as by switches.
pub fn asked_for() -> u8 {
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

/// Says what failed, and ends.
pub fn fail<E: Debug>(why: &E) -> ! {
    // The console takes everything.
    let _ = write!(Console, "{why:?}");
    event(Event::Failed, 0);
    cortex_m::asm::udf()
}
