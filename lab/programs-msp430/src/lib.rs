//! The programs of `lab/programs` on an MSP430FR5994: for each a build on `nv-rtos`, and one
//! on a kernel without protection, whose memory is FRAM or SRAM.
#![cfg_attr(target_arch = "msp430", no_std, feature(asm_experimental_arch))]

#[cfg(target_arch = "msp430")]
mod start;

#[cfg(target_arch = "msp430")]
pub use lab_programs as programs;
#[cfg(target_arch = "msp430")]
pub use start::{Kept, run_protected, run_unprotected};

/// Makes an image of a program: of its protected build, or of the other one; with so many bytes of
/// memory. On a host it is an empty program.
#[macro_export]
macro_rules! image {
    (protected::$name:ident, $bytes:literal) => {
        $crate::image! { @ $bytes
            $crate::run_protected($crate::programs::protected::$name::boot)
        }
    };
    (unprotected::$name:ident, $bytes:literal) => {
        $crate::image! { @ $bytes {
            use core::mem::MaybeUninit;
            #[unsafe(link_section = ".uninit")]
            static mut RAM: [MaybeUninit<u64>; $bytes / 8] =
                [const { MaybeUninit::uninit() }; $bytes / 8];
            // SAFETY: start-up comes by here once.
            let ram = unsafe { &mut *(&raw mut RAM) };
            $crate::run_unprotected($crate::programs::unprotected::$name::boot, ram)
        }}
    };
    (@ $bytes:literal $main:expr) => {
        /// What the program keeps.
        #[cfg(target_arch = "msp430")]
        #[used]
        #[unsafe(link_section = ".kept")]
        static KEPT: $crate::Kept<$bytes> = $crate::Kept::BLANK;
        /// What start-up calls.
        #[cfg(target_arch = "msp430")]
        #[unsafe(no_mangle)]
        extern "C" fn program() -> ! {
            $main
        }
        #[cfg(not(target_arch = "msp430"))]
        fn main() {}
    };
}
