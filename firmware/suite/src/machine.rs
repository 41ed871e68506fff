//! A boot of a machine.

use crate::abi::{self, cell};
use crate::mailbox::on::{Handle, MACHINE};
use crate::{Group, Mapped, Scene};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use nvmem::Region;

/// What Cortex-M's vector table has for SVCall.
#[cfg(target_arch = "arm")]
pub use checkpoint::svcall;

/// What a Cortex-M4's vector table has for PendSV.
#[cfg(all(target_arch = "arm", target_abi = "eabihf"))]
pub use crate::switch::pendsv;

/// The same for threads of the kernel, on each Cortex-M.
#[cfg(target_arch = "arm")]
pub use nv_rtos::cortex_m::pendsv as kernel_pendsv;

/// What a RISC-V core's vectors have for the software interrupt.
#[cfg(target_arch = "riscv32")]
pub use crate::switch::software as pendsv;

/// The same for threads of the kernel.
#[cfg(target_arch = "riscv32")]
pub use nv_rtos::riscv::software as kernel_pendsv;

/// What an MSP430's vectors have for the switch of threads of the kernel.
#[cfg(target_arch = "msp430")]
pub use nv_rtos::msp430::ta0_a1 as kernel_pendsv;

/// The failure model of this machine's memory.
#[cfg(target_arch = "msp430")]
pub type Model = nvmem::InOrder16;
/// The failure model of this machine's memory.
#[cfg(not(target_arch = "msp430"))]
pub type Model = nvmem::InOrder32;

/// Runs the scenario that the mailbox names, and stops. A machine's start-up calls it.
pub fn boot(group: Group<Model>) -> ! {
    let mailbox = Handle(PhantomData);
    mailbox.write_cell(cell::MARK, 0);
    mailbox.write_cell(cell::STATUS, abi::RUNNING);
    mailbox.write_cell(cell::BOOTS, mailbox.read_cell(cell::BOOTS).wrapping_add(1));
    let Some(s) = group
        .scenarios
        .get(usize::from(mailbox.read_cell(cell::SCENARIO)))
    else {
        end(abi::NO_SCENARIO)
    };
    // The compiler shall not know where the memory lies, as it does not with a linker's symbols.
    let start = core::hint::black_box(MACHINE.nvm as usize) as *mut u8;
    run(s.run, start, s.bytes)
}

fn run<M: Mapped>(f: fn(&mut Scene<'_, M>), start: *mut u8, bytes: usize) -> ! {
    // SAFETY: the machine's non-volatile memory, which nothing else uses; a boot comes by here
    // once.
    match unsafe { Region::from_raw(start, start.wrapping_add(bytes)) } {
        Ok(region) => f(&mut Scene::new(region)),
        Err(_) => end(abi::NO_SCENARIO),
    }
    end(0)
}

/// The timer's period, or `None` if the mailbox asks for no timer.
pub fn timer() -> Option<u16> {
    let mailbox: Handle<'_> = Handle(PhantomData);
    match mailbox.read_cell(cell::TIMER) {
        0 => None,
        n => Some(n),
    }
}

/// The handler of the timer's interrupt: counts it in the mailbox, then calls the scenario's
/// handler.
pub fn tick() {
    let mailbox: Handle<'_> = Handle(PhantomData);
    mailbox.write_cell(cell::TICKS, mailbox.read_cell(cell::TICKS).wrapping_add(1));
    // SAFETY: the handler, which the program interrupts never; a volatile access.
    if let Some(f) = unsafe { HANDLER.0.get().read_volatile() } {
        f()
    }
}

struct Handler(UnsafeCell<Option<fn()>>);
// SAFETY: one core, and each access is one volatile access of a word.
unsafe impl Sync for Handler {}
static HANDLER: Handler = Handler(UnsafeCell::new(None));

/// Sets the scenario's handler of the timer's interrupt.
pub(crate) fn on_tick(f: fn()) {
    // SAFETY: as above.
    unsafe { HANDLER.0.get().write_volatile(Some(f)) }
}

/// Ends the boot. `failure` is 0 if the scenario is finished, otherwise the code of the failed
/// check.
pub fn end(failure: u16) -> ! {
    unsafe extern "Rust" {
        fn relume_stop() -> !;
    }
    let mailbox: Handle<'_> = Handle(PhantomData);
    let status = if failure == 0 {
        abi::FINISHED
    } else {
        mailbox.write_cell(cell::FAILURE, failure);
        abi::FAILED
    };
    mailbox.write_cell(cell::STATUS, status);
    // SAFETY: defined by the machine's crate, and safe to call anywhere.
    unsafe { relume_stop() }
}

/// Ends the boot after a panic.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, |l| l.line());
    end(abi::PANICKED | line as u16 & 0x7FF)
}
