//! Vectors, start-up, the timer, and the end.

use core::arch::{asm, global_asm, naked_asm};
use relume_suite::{abi, machine};

unsafe extern "C" {
    static _stack_top: u8;
    fn reset() -> !;
    fn image() -> !;
}

/// An entry of the vector table.
#[repr(C)]
pub union Vector {
    stack: *const u8,
    reset: unsafe extern "C" fn() -> !,
    handler: extern "C" fn(),
    svcall: unsafe extern "C" fn(),
    none: usize,
}
// SAFETY: constants.
unsafe impl Sync for Vector {}

const FAULT: Vector = Vector { handler: fault };
const NONE: Vector = Vector { none: 0 };
/// What brings a program back that was in a handler.
const SVCALL: Vector = Vector {
    svcall: machine::svcall::<()>,
};

/// The handler of PendSV in programs without threads.
///
/// # Safety
/// Only the core calls it.
pub unsafe extern "C" fn no_threads() {
    fault()
}

/// The system's vectors, with what changes threads; no other interrupt is ever enabled.
pub const fn vectors(pendsv: unsafe extern "C" fn()) -> [Vector; 16] {
    [
        Vector {
            stack: &raw const _stack_top,
        },
        Vector { reset },
        FAULT,
        FAULT,
        FAULT,
        FAULT,
        FAULT,
        NONE,
        NONE,
        NONE,
        NONE,
        SVCALL,
        FAULT,
        NONE,
        Vector { svcall: pendsv },
        Vector { handler: systick },
    ]
}

// The FPU first, if there is one, because compiled code may use it; then RAM, as a program finds
// it. In instructions of all Cortex-M.
global_asm!(
    ".global reset
    .thumb_func
    reset:",
    #[cfg(target_abi = "eabihf")]
    "   ldr r0, =0xE000ED88
        ldr r1, [r0]
        orr r1, r1, #0x00F00000
        str r1, [r0]
        dsb
        isb",
    "   ldr r0, =_data
        ldr r1, =_data_end
        ldr r2, =_data_load
    1:  cmp r0, r1
        bhs 2f
        ldr r3, [r2]
        str r3, [r0]
        adds r2, #4
        adds r0, #4
        b 1b
    2:  ldr r0, =_bss
        ldr r1, =_bss_end
        movs r3, #0
        movs r2, #0
        b 4f
    3:  stmia r0!, {{r2, r3}}
    4:  cmp r0, r1
        blo 3b
        bl start
        udf #0
    .ltorg"
);

const SYST_CSR: *mut u32 = 0xE000_E010 as *mut u32;
const SYST_RVR: *mut u32 = 0xE000_E014 as *mut u32;
const SYST_CVR: *mut u32 = 0xE000_E018 as *mut u32;

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    if let Some(period) = machine::timer() {
        // SAFETY: SysTick, which nothing else uses. It counts at 25 MHz, an instruction every 40
        // under QEMU's icount.
        unsafe {
            SYST_RVR.write_volatile(u32::from(period) / 40 + 1);
            SYST_CVR.write_volatile(0);
            SYST_CSR.write_volatile(7);
        }
    }
    // SAFETY: the image's, called once.
    unsafe { image() }
}

/// Zeroes the stack and all registers, and starts over.
///
/// # Safety
/// Nothing on the stack is used any more.
#[unsafe(naked)]
pub unsafe extern "C" fn clean(run: extern "C" fn() -> !) -> ! {
    naked_asm!(
        #[cfg(target_abi = "eabihf")]
        ".fpu fpv4-sp-d16",
        "ldr r3, =_stack_clean",
        "ldr r1, =_stack_top",
        "mov sp, r1",
        "movs r2, #0",
        "1: cmp r3, r1",
        "bhs 2f",
        "str r2, [r3]",
        "adds r3, #4",
        "b 1b",
        "2: movs r1, #0",
        "movs r3, #0",
        "movs r4, #0",
        "movs r5, #0",
        "movs r6, #0",
        "movs r7, #0",
        "mov r8, r2",
        "mov r9, r2",
        "mov r10, r2",
        "mov r11, r2",
        "mov r12, r2",
        "mov lr, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d0, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d1, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d2, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d3, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d4, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d5, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d6, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d7, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d8, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d9, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d10, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d11, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d12, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d13, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d14, r2, r2",
        #[cfg(target_abi = "eabihf")]
        "vmov d15, r2, r2",
        // A handler finds the flags on the stack.
        "msr apsr_nzcvq, r2",
        "bx r0",
        ".ltorg",
    )
}

extern "C" fn systick() {
    machine::tick();
}

extern "C" fn fault() {
    machine::end(abi::FAULT)
}

/// Ends the program: semihosting's exit.
#[unsafe(no_mangle)]
#[inline(never)]
extern "Rust" fn relume_stop() -> ! {
    loop {
        // SAFETY: SYS_EXIT with ADP_Stopped_ApplicationExit; a debugger or an emulator does not
        // return.
        unsafe { asm!("cpsid i", "bkpt 0xAB", in("r0") 0x18, in("r1") 0x2_0026, options(nostack)) }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    machine::panicked(info)
}

struct NoInterrupts;
critical_section::set_impl!(NoInterrupts);

// SAFETY: one core; nothing interrupts while they are off.
unsafe impl critical_section::Impl for NoInterrupts {
    #[inline(always)]
    unsafe fn acquire() -> bool {
        let masked: u32;
        // SAFETY: reads PRIMASK and sets it.
        unsafe { asm!("mrs {0}, primask", "cpsid i", out(reg) masked) };
        masked & 1 == 0
    }
    #[inline(always)]
    unsafe fn release(enabled: bool) {
        if enabled {
            // SAFETY: they were on before.
            unsafe { asm!("cpsie i") }
        }
    }
}
