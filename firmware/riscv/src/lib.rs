//! Start-up of an RV32IMC core and the way to its scenarios. On other targets an empty program.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(all(target_os = "none", target_arch = "riscv32"))]
mod start;

/// Makes a program of a group of scenarios.
#[macro_export]
macro_rules! image {
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
