//! A Cortex-M4, QEMU's mps2-an386, whose MPU guards; and a Cortex-M33, its mps2-an505, with PSPLIM.

use crate::program::{Cell, Stacks, named, run};
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use cortex_m_rt::{ExceptionFrame, entry, exception};
use nv_rtos::Thread;
use nv_rtos::cortex_m::systick;
pub use nv_rtos::cortex_m::{Cortex as Core, Masked, Stack};
use nv_rtos::nvmem::{InOrder32, Region};
use nv_rtos::pmem_tx::Preempted;

pub type Fram = Preempted<InOrder32, Masked>;
pub const STACK: usize = 12 << 10;

/// The memory that survives, and its cells.
const NVM: usize = if cfg!(armv8m) {
    0x8000_0000
} else {
    0x2100_0000
};
const CELLS: usize = NVM + 0x1_0000;
/// Added to what is asked for: the program uses a region of the MPU itself, so words guard.
const WORDS: u16 = 256;
/// What is asked for the guide's program.
const GUIDE: u16 = 512;

/// The statics of the threads.
#[repr(align(256))]
struct Static(UnsafeCell<Stacks>);
// SAFETY: `main` lends it once.
unsafe impl Sync for Static {}
static STACKS: Static = Static(UnsafeCell::new(Stacks::NEW));

pub fn stacks() -> *mut Stacks {
    STACKS.0.get()
}

fn cell(cell: Cell) -> *mut u16 {
    (CELLS as *mut u16).wrapping_add(cell as usize)
}

/// Without [`WORDS`].
pub fn read(at: Cell) -> u16 {
    // SAFETY: a cell, which no reference points to.
    unsafe { cell(at).read_volatile() % WORDS }
}

pub fn write(at: Cell, value: u16) {
    // SAFETY: as above.
    unsafe { cell(at).write_volatile(value) }
}

pub fn guarded(port: Core<'static, 2, STACK>) -> Core<'static, 2, STACK> {
    // SAFETY: as above; and a region of the MPU, for memory that is not used.
    unsafe {
        if cell(Cell::Asked).read_volatile() & WORDS != 0 {
            (0xE000_ED98 as *mut u32).write_volatile(7); // MPU_RNR
            (0xE000_EDA0 as *mut u32).write_volatile(1 << 28 | 4 << 1 | 1); // MPU_RASR
        }
    }
    port.on_overflow(named)
}

#[entry]
fn main() -> ! {
    let start = core::hint::black_box(NVM) as *mut u8;
    // SAFETY: memory that nothing else uses.
    let Ok(fram) = (unsafe { Region::from_raw(start, start.add(2048)) }) else {
        fail(1)
    };
    // SAFETY: once in a boot.
    let stacks = unsafe { &mut *stacks() };
    // SAFETY: a cell, which no reference points to.
    match unsafe { cell(Cell::Asked).read_volatile() } {
        GUIDE => run_guide(fram, stacks),
        _ => run(fram, stacks),
    }
    end()
}

/// The guide's program, as its text has it.
#[allow(missing_docs)]
mod guide {
    include!(concat!(env!("OUT_DIR"), "/guide.rs"));
}

/// Runs the guide's program to its end, as its README says, and notes what it has not used.
fn run_guide(fram: Region<'_, Fram>, stacks: &'static mut Stacks) {
    use guide::{Node, sampler, worker};
    let Ok((kernel, mut threads)) = Node::open(fram) else {
        fail(line!())
    };
    let Ok((places, _)) = threads.share() else {
        fail(line!())
    };
    let mut port = guarded(Core::new(&mut stacks.stacks));
    let checked = |th: &mut Thread<Node, u32>| {
        if worker(th)? != 7 {
            fail(line!())
        }
        write(Cell::UnusedToo, th.unused_stack().map_or(0, |n| n as u16));
        Ok(())
    };
    let measured = |th: &mut Thread<Node, u32>| {
        sampler(th)?;
        write(Cell::Unused, th.unused_stack().map_or(0, |n| n as u16));
        Ok(())
    };
    Node::spawn(&kernel, places, &mut port, measured, checked);
    let ran = port.run(&kernel, Some(16_000));
    let well = (0..2).all(|thread| matches!(kernel.ended(thread), Some(Ok(()))));
    write(Cell::Ended, (ran && well).into());
}

#[exception]
fn SysTick() {
    systick();
}

/// Ends the program: semihosting's exit.
pub fn end() -> ! {
    loop {
        // SAFETY: SYS_EXIT with ADP_Stopped_ApplicationExit.
        unsafe { asm!("cpsid i", "bkpt 0xAB", in("r0") 0x18, in("r1") 0x2_0026, options(nostack)) }
    }
}

/// Does not read the frame, as a handler of users should not.
#[exception]
unsafe fn HardFault(_: &ExceptionFrame) -> ! {
    if let Some(overflow) = nv_rtos::cortex_m::overflow() {
        named(overflow)
    }
    fail(1)
}

/// # Safety
/// Only the core calls it, by the vector table.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn PendSV() {
    naked_asm!("b {switch}", switch = sym nv_rtos::cortex_m::pendsv)
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
