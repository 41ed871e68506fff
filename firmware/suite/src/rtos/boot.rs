//! What the scenarios of the kernel have in common: the machine's port, and how a boot runs a
//! system of two threads.

use crate::abi::cell;
use crate::{Mapped, Scene, check, machine};
#[cfg(not(target_arch = "arm"))]
use core::arch::asm;
use core::cell::UnsafeCell;
#[cfg(target_arch = "arm")]
pub(super) use nv_rtos::cortex_m::{Cortex as Core, Masked, Stack, port, systick as tick};
#[cfg(target_arch = "msp430")]
pub(super) use nv_rtos::msp430::{Masked, Msp430 as Core, Stack, port, tick};
use nv_rtos::pmem_tx::Preempted;
#[cfg(target_arch = "riscv32")]
pub(super) use nv_rtos::riscv::{Hart as Core, Masked, Stack, port, tick};
use nv_rtos::{Kernel, Runs, System};

pub(super) type Here = Scene<'static, machine::Model>;
pub(super) type Fram = Preempted<machine::Model, Masked>;

/// Bytes of a thread's stack: handlers run there, too, but not on a Cortex-M.
pub(super) const STACK: usize = if cfg!(target_arch = "arm") {
    2048
} else if cfg!(target_arch = "riscv32") {
    4096
} else {
    1536
};

/// A thread begins a turn: so many are committed.
pub(super) fn tell(of: u16, done: u32) {
    let scene = Here::anywhere();
    let (told, done) = (scene.read_cell(of), done as u16);
    check!(scene, told == done || told.wrapping_add(1) == done);
    if told != done {
        scene.write_cell(of, done);
    }
}

/// Runs the two threads of a system to their end, with a handler of the timer.
pub(super) fn run<M: Mapped, S: System, const N: usize>(
    scene: &Scene<'_, M>,
    kernel: &Kernel<'_, S>,
    port: Core<'_, 2, N>,
    on_tick: fn(),
) {
    const { assert!(<Kernel<'static, S> as Runs>::THREADS == 2) };
    machine::on_tick(on_tick);
    // SAFETY: start-up leaves them disabled if there is no timer.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        asm!("csrsi mstatus, 8")
    };
    // SAFETY: start-up leaves them disabled if there is no timer.
    #[cfg(target_arch = "msp430")]
    unsafe {
        asm!("nop", "eint", "nop")
    };
    scene.write_cell(cell::OPEN - cell::OWN, 1);
    let ran = port.run(kernel, None);
    scene.write_cell(cell::OPEN - cell::OWN, 0);
    check!(scene, ran);
    check!(scene, (0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
}

/// The kernel that runs, for the timer's handler.
pub(super) struct Running<S: System>(UnsafeCell<*const Kernel<'static, S>>);
// SAFETY: one core, and each access is one volatile access of a word.
unsafe impl<S: System> Sync for Running<S> {}

impl<S: System> Running<S> {
    pub(super) const fn nothing() -> Self {
        Running(UnsafeCell::new(core::ptr::null()))
    }

    /// While `f` runs, handlers find the kernel.
    pub(super) fn during(&self, kernel: &Kernel<'_, S>, f: impl FnOnce()) {
        let kernel = (&raw const *kernel).cast();
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(kernel) };
        f();
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(core::ptr::null()) };
    }

    /// The kernel, in a handler.
    pub(super) fn kernel(&self) -> Option<&Kernel<'static, S>> {
        // SAFETY: as above; the kernel is there until `during` has returned, and nothing keeps it.
        unsafe { self.0.get().read_volatile().as_ref() }
    }
}
