//! How a program ends that nobody watches: with its core asleep. Such images of an MSP430 have this
//! as a module.

use core::arch::asm;

/// Stops the core for good: interrupts off, and it sleeps.
pub(crate) fn stop() -> ! {
    loop {
        // SAFETY: nothing wakes the core any more.
        unsafe { asm!("dint", "nop", "bis #0x10, r2", "nop") }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    stop()
}

/// What `core` calls where it cannot go on.
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    stop()
}
