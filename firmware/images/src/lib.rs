//! What all images have in common. Each file of `bin` is the image of one group of scenarios, for
//! every machine: the target says which. On a host the images are empty programs.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
pub use relume_firmware_arm::{Vector, clean, no_threads, vectors};
#[cfg(target_arch = "msp430")]
pub use relume_firmware_msp430::clean;
#[cfg(all(target_os = "none", target_arch = "riscv32"))]
pub use relume_firmware_riscv::clean;
#[cfg(all(target_os = "none", target_arch = "riscv32"))]
pub use relume_suite::machine::pendsv as no_threads;

/// Makes a program of a group of scenarios. With `clean` before it, the stack and the registers are
/// zero first: what a program has not written is in its checkpoints, too, and the rig wants it to
/// be the same in each boot. With `pendsv` behind it, that is what changes threads: the handler of
/// PendSV on a Cortex-M4, that of the software interrupt on a RISC-V core, that of Timer0_A on an
/// MSP430.
#[macro_export]
macro_rules! image {
    (clean $group:expr) => {
        $crate::image! { @ {
            extern "C" fn run() -> ! {
                relume_suite::machine::boot($group)
            }
            // SAFETY: nothing on the stack is used any more.
            unsafe { $crate::clean(run) }
        } $crate::no_threads }
    };
    ($group:expr) => {
        $crate::image! { @ { relume_suite::machine::boot($group) } $crate::no_threads }
    };
    ($group:expr, pendsv: $pendsv:ident) => {
        $crate::image! { @ { relume_suite::machine::boot($group) } relume_suite::machine::$pendsv }
        $crate::image! { @vector $pendsv }
    };
    // On an MSP430 only the kernel's threads are changed by an interrupt.
    (@vector pendsv) => {};
    (@vector kernel_pendsv) => {
        /// What an MSP430 has in the vector of Timer0_A's other interrupts.
        #[cfg(target_arch = "msp430")]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".vector.ta0_a1")]
        static TA0_A1: unsafe extern "C" fn() = relume_suite::machine::kernel_pendsv;
    };
    (@ $main:block $pendsv:path) => {
        /// What start-up calls.
        #[cfg(target_os = "none")]
        #[unsafe(no_mangle)]
        extern "C" fn image() -> ! $main
        /// What the core reads first.
        #[cfg(all(target_os = "none", target_arch = "arm"))]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".vectors")]
        static VECTORS: [$crate::Vector; 16] = $crate::vectors($pendsv);
        /// What the vectors of a RISC-V core lead to. Only a jump: no register may change.
        ///
        /// # Safety
        /// Only the core calls it.
        #[cfg(all(target_os = "none", target_arch = "riscv32"))]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn relume_software() {
            core::arch::naked_asm!("j {to}", to = sym $pendsv)
        }
        #[cfg(not(target_os = "none"))]
        fn main() {}
    };
}
