//! The desk, as a scenario reaches it: at its address on a machine, through a trait on a host.

/// A desk on a host: the world of a test kit.
pub trait Desk {
    /// What a cell says.
    fn told(&self, cell: u16) -> u16;
    /// Writes to a cell.
    fn tell(&self, cell: u16, value: u16);
}

/// The machine's desk.
#[cfg(target_os = "none")]
pub(crate) mod on {
    #[cfg(target_arch = "arm")]
    pub use crate::abi::ARM as HERE;
    #[cfg(target_arch = "msp430")]
    pub use crate::abi::MSP430 as HERE;
    #[cfg(target_arch = "riscv32")]
    pub use crate::abi::RISCV as HERE;
    use core::marker::PhantomData;

    #[derive(Clone, Copy)]
    pub struct Handle<'s>(pub PhantomData<&'s ()>);

    impl Handle<'_> {
        #[inline(always)]
        fn at(cell: u16) -> *mut u16 {
            (HERE.desk as usize as *mut u16).wrapping_add(cell as usize)
        }
        #[inline(always)]
        pub fn told(&self, cell: u16) -> u16 {
            // SAFETY: a cell of the desk, which no reference points to.
            unsafe { Self::at(cell).read_volatile() }
        }
        #[inline(always)]
        pub fn tell(&self, cell: u16, value: u16) {
            // SAFETY: as above.
            unsafe { Self::at(cell).write_volatile(value) }
        }
    }
}

/// The desk of a test.
#[cfg(not(target_os = "none"))]
pub(crate) mod on {
    pub type Handle<'s> = &'s dyn super::Desk;
}
