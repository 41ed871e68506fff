//! An MSP430FR5994: four words guard.

use crate::program::{Cell, Stacks, named, run};
use core::arch::asm;
use core::cell::UnsafeCell;
use nv_rtos::msp430fr5994::Board;
pub use nv_rtos::msp430fr5994::{Fram, Masked, Msp430 as Core, Stack, stop as end};

pub const STACK: usize = 1536;

/// The cells, in the information memory.
const CELLS: *mut u16 = 0x1800 as *mut u16;

/// The statics of the threads.
struct Static(UnsafeCell<Stacks>);
// SAFETY: `main` lends it once.
unsafe impl Sync for Static {}
static STACKS: Static = Static(UnsafeCell::new(Stacks::NEW));

pub fn stacks() -> *mut Stacks {
    STACKS.0.get()
}

pub fn read(cell: Cell) -> u16 {
    // SAFETY: a cell, which no reference points to.
    unsafe { CELLS.add(cell as usize).read_volatile() }
}

pub fn write(cell: Cell, value: u16) {
    // SAFETY: as above.
    unsafe { CELLS.add(cell as usize).write_volatile(value) }
}

pub fn guarded(port: Core<'static, 2, STACK>) -> Core<'static, 2, STACK> {
    port.on_overflow(named)
}

nv_rtos::msp430fr5994::entry!(main);

fn main(board: Board) {
    // SAFETY: once in a boot.
    run(board.fram, unsafe { &mut *stacks() });
}

struct OneCore;
critical_section::set_impl!(OneCore);

// SAFETY: one core; nothing interrupts while they are off.
unsafe impl critical_section::Impl for OneCore {
    unsafe fn acquire() -> bool {
        let before: u16;
        // SAFETY: reads the status register and clears its interrupt enable.
        unsafe { asm!("mov r2, {0}", "dint", "nop", out(reg) before) };
        before & 8 != 0
    }
    unsafe fn release(enabled: bool) {
        if enabled {
            // SAFETY: they were on before.
            unsafe { asm!("nop", "eint", "nop") }
        }
    }
}

/// A check has failed.
pub fn fail(line: u32) -> ! {
    write(Cell::Failed, line as u16);
    end()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fail(info.location().map_or(1, |l| l.line()))
}
