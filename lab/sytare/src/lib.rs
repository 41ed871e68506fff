//! The programs of the Sytare paper on an MSP430FR5994 with a radio, eight LEDs and two buttons.
//!
//! | program | what it does |
//! |---|---|
//! | `rsa` | encrypts a buffer of 128 bits, by an engine in software |
//! | `leds` | a counter that the LEDs show, to 100, one more each 10 ms |
//! | `sense` | 80 readings of the temperature, 5 ms apart, and their mean |
//! | `wsn` | 50 times: ten readings of the temperature; their mean leaves in a packet |
//! | `wsn-kept` | the same; the calibration of its radio survives |
//! | `wsn-steps` | the same, with steps and an outbox |
//! | `wsn-paced` | the same, with a pause before each packet's readings |
//! | `wsn-eager` | that one, with a radio that is restored in each boot |
//! | `buttons` | counts how often buttons are pressed; interrupts tell of it |
//! | `receive` | counts packets that arrive; interrupts tell of them |
//! | `calls` | calls of devices, to be measured |
//! | `planted-leds`, `planted-wsn` | two with a mistake, which the runs must find |
//!
//! Each is there twice: with `nv-device`, and bare, as one writes it where the power stays. The
//! programs are those of G. Berthou, T. Delizy, K. Marquet, T. Risset, G. Salagnac: "Sytare: a
//! Lightweight Kernel for NVRAM-Based Transiently-Powered Systems", IEEE Transactions on Computers
//! 68 (9), 2019. `cargo xtask evaluate --only device` runs them with power cuts; lab/EVALUATION.md
//! says what came of it.
//!
//! There are two ways to keep what a program does. `rsa`, `leds` and `wsn` keep it in the contexts
//! of their devices, each of which commits by itself: the program is a loop that asks how far it
//! has come. `sense`, `wsn-steps`, `buttons` and `receive` are programs of steps of `nv-replay`.
//!
//! Registers are those of SLAU367 (MSP430FR58xx, FR59xx, FR6xx Family User's Guide), at the
//! addresses of SLASE54 (MSP430FR5994); the radio's are those of SWRS040 (CC2500). On a host the
//! crate is empty but for the numbers of `rsa`.
#![cfg_attr(target_arch = "msp430", no_std, feature(asm_experimental_arch))]

#[cfg(target_arch = "msp430")]
pub mod drivers;
#[cfg(target_arch = "msp430")]
pub mod programs;
pub mod rsa;
#[cfg(target_arch = "msp430")]
mod start;

#[cfg(target_arch = "msp430")]
pub use start::{Memory, run};

/// What a program has found.
pub type Found = [u16; 8];

/// Makes an image of a function: `fn(Region) -> Option<Found>`. On a host it is an empty program.
#[macro_export]
macro_rules! image {
    ($main:ident) => {
        /// What start-up calls.
        #[cfg(target_arch = "msp430")]
        #[unsafe(no_mangle)]
        extern "C" fn program() -> ! {
            $crate::run($crate::programs::$main)
        }
        #[cfg(not(target_arch = "msp430"))]
        fn main() {}
    };
}
