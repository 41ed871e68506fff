//! Start-up of an MSP430FR5994 and the way to its scenarios. On other targets an empty program.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

#[cfg(target_arch = "msp430")]
mod arithmetic;
#[cfg(target_arch = "msp430")]
mod start;

/// Makes a program of a group of scenarios.
#[macro_export]
macro_rules! image {
    ($group:expr) => {
        /// What start-up calls.
        #[cfg(target_arch = "msp430")]
        #[unsafe(no_mangle)]
        extern "C" fn image() -> ! {
            relume_suite::machine::boot($group)
        }
        #[cfg(not(target_os = "none"))]
        fn main() {}
    };
}
