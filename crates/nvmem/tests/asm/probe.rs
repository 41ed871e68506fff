//! Compiled to assembly by `asm.rs`; not a test.
#![no_std]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

use nvmem::{Buffered32, InOrder32, mapped};

/// The unit that the target stores with one instruction.
#[cfg(target_arch = "msp430")]
pub type Unit = u16;
#[cfg(not(target_arch = "msp430"))]
pub type Unit = u32;

/// A user's store, the end of its loan, the library's store, a later user's store.
///
/// # Safety
/// `commit` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn with_pointer(user: &mut Unit, commit: *mut Unit) {
    let at = (&raw mut *user).cast::<u8>();
    mapped::lend(at, size_of::<Unit>());
    *user = 0x111;
    mapped::end_loan(at, size_of::<Unit>());
    unsafe { mapped::store(commit, 0x222) };
    mapped::lend(at, size_of::<Unit>());
    *user = 0x333;
    mapped::end_loan(at, size_of::<Unit>());
}

/// The same with barriers that do not take the lent pointer.
///
/// # Safety
/// `commit` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn with_plain_barrier(user: &mut Unit, commit: *mut Unit) {
    *user = 0x111;
    unsafe { core::arch::asm!("") };
    unsafe { mapped::store(commit, 0x222) };
    unsafe { core::arch::asm!("") };
    *user = 0x333;
}

/// # Safety
/// `at` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn one_store(at: *mut Unit, v: Unit) {
    unsafe { mapped::store(at, v) }
}

/// # Safety
/// `at` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn two_stores(at: *mut Unit, v: Unit) {
    unsafe {
        mapped::store(at, v);
        mapped::fence::<InOrder32>();
        mapped::store(at, v)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn loan(at: *mut u8) {
    mapped::lend(at, 8);
    mapped::end_loan(at, 8);
}

#[unsafe(no_mangle)]
pub extern "C" fn fence_in_order() {
    mapped::fence::<InOrder32>();
}

#[unsafe(no_mangle)]
pub extern "C" fn fence_buffered() {
    mapped::fence::<Buffered32>();
}
