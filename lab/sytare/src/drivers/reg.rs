//! Registers of the peripherals.

use core::ptr::{read_volatile, write_volatile};

/// A register of 8 or 16 bits.
#[derive(Clone, Copy)]
pub struct Reg<T>(*mut T);

impl<T: Copy> Reg<T> {
    /// The register at this address. It is one of a peripheral: reading and writing it touches no
    /// memory of a program.
    pub const fn at(address: usize) -> Self {
        assert!(address < 0x1000, "a peripheral");
        Reg(address as *mut T)
    }
    /// What it reads as.
    #[inline(always)]
    pub fn get(self) -> T {
        // SAFETY: a register of a peripheral, says `at`.
        unsafe { read_volatile(self.0) }
    }
    /// Writes it.
    #[inline(always)]
    pub fn set(self, value: T) {
        // SAFETY: as above.
        unsafe { write_volatile(self.0, value) }
    }
}

impl Reg<u8> {
    /// Sets bits.
    #[inline(always)]
    pub fn on(self, bits: u8) {
        self.set(self.get() | bits)
    }
}

macro_rules! bits {
    ($($t:ident)+) => {$(
        impl Reg<$t> {
            /// Clears bits.
            #[inline(always)]
            pub fn off(self, bits: $t) {
                self.set(self.get() & !bits)
            }
            /// Whether one of these bits is set.
            #[inline(always)]
            pub fn has(self, bits: $t) -> bool {
                self.get() & bits != 0
            }
        }
    )+};
}
bits!(u8 u16);
