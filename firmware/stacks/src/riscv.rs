//! An RV32IMC core, QEMU's virt: its PMP guards, or four words if the program uses an entry of it.

use crate::program::{Cell, Stacks, named, run};
use core::arch::{asm, global_asm, naked_asm};
use core::cell::UnsafeCell;
use nv_rtos::nvmem::{InOrder32, Region};
use nv_rtos::pmem_tx::Preempted;
use nv_rtos::riscv::{Exceptions, exception, software};
pub use nv_rtos::riscv::{Hart as Core, Masked, Stack};

pub type Fram = Preempted<InOrder32, Masked>;
pub const STACK: usize = 12 << 10;

/// The memory that survives, and its cells.
const NVM: usize = 0x8010_0000;
const CELLS: usize = NVM + 0x1_0000;
/// Added to what is asked for: the program uses the second entry of the PMP, so words guard.
const WORDS: u16 = 256;

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
    // SAFETY: as above; and an entry of the PMP, for memory that is not used.
    unsafe {
        if cell(Cell::Asked).read_volatile() & WORDS != 0 {
            asm!(
                "csrw pmpaddr1, {0}", "csrs pmpcfg0, {1}",
                in(reg) 0x2000_0000_u32 >> 2, in(reg) (3 << 3 | 7) << 8_u32
            );
        }
    }
    port.on_overflow(named).lock_guards()
}

// The first instruction, then RAM, as a program finds it. The vectors: exceptions, and the software
// interrupt.
global_asm!(
    ".section .start,\"ax\",@progbits
    .global reset
    reset:
        csrw mie, zero
        la sp, _stack_top
        la t0, _data
        la t1, _data_end
        la t2, _data_load
    1:  bgeu t0, t1, 2f
        lw t3, 0(t2)
        sw t3, 0(t0)
        addi t0, t0, 4
        addi t2, t2, 4
        j 1b
    2:  la t0, _bss
        la t1, _bss_end
    3:  bgeu t0, t1, 4f
        sw zero, 0(t0)
        addi t0, t0, 4
        j 3b
    4:  la t0, vectors
        addi t0, t0, 1
        csrw mtvec, t0
        csrsi mstatus, 8
        call start
        unimp

    .section .text.vectors,\"ax\",@progbits
    .option push
    .option norvc
    .balign 64
    vectors:
        j {exception}
        j {exception}
        j {exception}
        j {software}
    .option pop
    .section .text",
    exception = sym exception::<Others>,
    software = sym software,
);

struct Others;
impl Exceptions for Others {
    #[unsafe(naked)]
    unsafe extern "C" fn other() {
        naked_asm!("la sp, _stack_top", "j {other}", other = sym other)
    }
}

extern "C" fn other() -> ! {
    fail(1)
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    let start = core::hint::black_box(NVM) as *mut u8;
    // SAFETY: memory that nothing else uses.
    let Ok(fram) = (unsafe { Region::from_raw(start, start.add(2048)) }) else {
        fail(1)
    };
    // SAFETY: once in a boot.
    run(fram, unsafe { &mut *stacks() });
    end()
}

/// Ends the program: the test device of the machine.
pub fn end() -> ! {
    // SAFETY: the device's register; nothing interrupts any more.
    unsafe {
        asm!("csrci mstatus, 8");
        (0x0010_0000 as *mut u32).write_volatile(0x5555);
    }
    loop {
        core::hint::spin_loop();
    }
}

struct OneCore;
critical_section::set_impl!(OneCore);

// SAFETY: one core; nothing interrupts while they are off.
unsafe impl critical_section::Impl for OneCore {
    unsafe fn acquire() -> bool {
        let before: usize;
        // SAFETY: reads and clears the interrupt enable.
        unsafe { asm!("csrrci {0}, mstatus, 8", out(reg) before) };
        before & 8 != 0
    }
    unsafe fn release(enabled: bool) {
        if enabled {
            // SAFETY: they were on before.
            unsafe { asm!("csrsi mstatus, 8") }
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
