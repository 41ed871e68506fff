//! Start-up of an RV32IMC core and the way to its scenarios. On other targets an empty program.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(all(target_os = "none", target_arch = "riscv32"))]
mod start;

#[cfg(all(target_os = "none", target_arch = "riscv32"))]
pub use start::clean;

/// Makes a program of a group of scenarios. With `clean` before it, the stack and the registers are
/// zero first: what a program has not written is in its checkpoints, too, and the rig wants it to
/// be the same in each boot.
#[macro_export]
macro_rules! image {
    (clean $group:expr) => {
        /// What start-up calls.
        #[cfg(all(target_os = "none", target_arch = "riscv32"))]
        #[unsafe(no_mangle)]
        extern "C" fn image() -> ! {
            extern "C" fn run() -> ! {
                relume_suite::machine::boot($group)
            }
            // SAFETY: nothing on the stack is used any more.
            unsafe { $crate::clean(run) }
        }
        #[cfg(not(target_os = "none"))]
        fn main() {}
    };
    ($group:expr) => {
        /// What start-up calls.
        #[cfg(all(target_os = "none", target_arch = "riscv32"))]
        #[unsafe(no_mangle)]
        extern "C" fn image() -> ! {
            relume_suite::machine::boot($group)
        }
        #[cfg(not(target_os = "none"))]
        fn main() {}
    };
}
