//! Access to the mailbox and to the bench: at its address on a machine, through a trait on a host.

/// A mailbox and a bench on a host. A test keeps them outside of the memory that it cuts.
pub trait Mailbox {
    /// Reads a cell.
    fn read_cell(&self, cell: u16) -> u16;
    /// Writes a cell.
    fn write_cell(&self, cell: u16, value: u16);
    /// Reads a register of [`bench`](crate::abi::bench).
    fn read_register(&self, register: u16) -> u16 {
        let _ = register;
        0
    }
    /// Writes a register of [`bench`](crate::abi::bench).
    fn write_register(&self, register: u16, value: u16) {
        let _ = (register, value);
    }
}

/// The machine's mailbox.
#[cfg(target_os = "none")]
pub(crate) mod on {
    #[cfg(target_arch = "arm")]
    pub use crate::abi::ARM as MACHINE;
    #[cfg(target_arch = "msp430")]
    pub use crate::abi::MSP430 as MACHINE;
    #[cfg(target_arch = "riscv32")]
    pub use crate::abi::RISCV as MACHINE;
    use core::marker::PhantomData;

    #[derive(Clone, Copy)]
    pub struct Handle<'s>(pub PhantomData<&'s ()>);

    impl Handle<'_> {
        #[inline(always)]
        fn at(cell: u16) -> *mut u16 {
            (MACHINE.mailbox as usize as *mut u16).wrapping_add(cell as usize)
        }
        #[inline(always)]
        pub fn read_cell(&self, cell: u16) -> u16 {
            // SAFETY: a cell of the mailbox, which no reference points to.
            unsafe { Self::at(cell).read_volatile() }
        }
        #[inline(always)]
        pub fn write_cell(&self, cell: u16, value: u16) {
            // SAFETY: as above.
            unsafe { Self::at(cell).write_volatile(value) }
        }
        #[inline(always)]
        fn register(n: u16) -> *mut u16 {
            (MACHINE.bench as usize as *mut u16).wrapping_add(n as usize)
        }
        #[inline(always)]
        pub fn read_register(&self, n: u16) -> u16 {
            // SAFETY: a register of the bench, which no reference points to.
            unsafe { Self::register(n).read_volatile() }
        }
        #[inline(always)]
        pub fn write_register(&self, n: u16, value: u16) {
            // SAFETY: as above.
            unsafe { Self::register(n).write_volatile(value) }
        }
    }
}

/// The mailbox of a test.
#[cfg(not(target_os = "none"))]
pub(crate) mod on {
    pub type Handle<'s> = &'s dyn super::Mailbox;
}
