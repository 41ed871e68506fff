//! What the probes share: an entry, a panic handler, and a region at a fixed address.
//!
//! On a host the probes are programs that do nothing, so that `--workspace` builds them.
#![cfg_attr(target_os = "none", no_std)]

/// Makes a probe of the block: its entry on a bare target.
#[macro_export]
macro_rules! probe {
    ($body:block) => {
        /// The entry.
        #[cfg(target_os = "none")]
        #[unsafe(no_mangle)]
        pub extern "C" fn _start() -> ! {
            $body
            loop {}
        }

        #[cfg(target_os = "none")]
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            loop {}
        }

        #[cfg(not(target_os = "none"))]
        fn main() {}
    };
}

/// The medium: 4 KiB at an address that the compiler does not know.
#[cfg(target_os = "none")]
#[inline(never)]
pub fn region<M: nvmem::Model>() -> Option<nvmem::Region<'static, M>> {
    let start = core::hint::black_box(0x2000_0000_usize) as *mut u8;
    // SAFETY: never run; for a linked program the range is RAM of a board.
    unsafe { nvmem::Region::from_raw(start, start.wrapping_add(4096)) }.ok()
}

/// A program without interrupts is one critical section; for cores without compare-and-swap.
#[cfg(target_os = "none")]
mod alone {
    struct Alone;
    critical_section::set_impl!(Alone);

    // SAFETY: a probe has one thread of execution.
    unsafe impl critical_section::Impl for Alone {
        unsafe fn acquire() {}
        unsafe fn release(_: ()) {}
    }
}
