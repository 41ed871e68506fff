//! A boot of a machine.

use crate::abi::{self, cell};
use crate::desk::on::{HERE, Handle};
use crate::{Group, Mapped, Scene};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use nvmem::Region;

/// What Cortex-M's vector table has for SVCall.
#[cfg(target_arch = "arm")]
pub use checkpoint::svcall;

/// The failure model of this machine's memory.
#[cfg(target_arch = "msp430")]
pub type Model = nvmem::InOrder16;
/// The failure model of this machine's memory.
#[cfg(not(target_arch = "msp430"))]
pub type Model = nvmem::InOrder32;

/// What a machine's start-up calls: runs the scenario that the desk names, and stops.
pub fn boot(group: Group<Model>) -> ! {
    let desk = Handle(PhantomData);
    desk.tell(cell::MARK, 0);
    desk.tell(cell::STATUS, abi::RUNNING);
    desk.tell(cell::BOOTS, desk.told(cell::BOOTS).wrapping_add(1));
    let Some(s) = group.scenarios.get(usize::from(desk.told(cell::SCENARIO))) else {
        end(abi::NO_SCENARIO)
    };
    // The compiler shall not know where the memory lies, as it does not with a linker's symbols.
    let start = core::hint::black_box(HERE.nvm as usize) as *mut u8;
    run(s.run, start, s.bytes)
}

fn run<M: Mapped>(f: fn(&mut Scene<'_, M>), start: *mut u8, bytes: usize) -> ! {
    // SAFETY: the machine's non-volatile memory, which nothing else uses; a boot comes by here once.
    match unsafe { Region::from_raw(start, start.wrapping_add(bytes)) } {
        Ok(region) => f(&mut Scene::new(region)),
        Err(_) => end(abi::NO_SCENARIO),
    }
    end(0)
}

/// Whether the desk asks for the timer, and with which period.
pub fn timer() -> Option<u16> {
    let desk: Handle<'_> = Handle(PhantomData);
    match desk.told(cell::TIMER) {
        0 => None,
        n => Some(n),
    }
}

/// What the timer's interrupt does: something that a person at the desk sees, and what the scenario asks for.
pub fn tick() {
    let desk: Handle<'_> = Handle(PhantomData);
    desk.tell(cell::TICKS, desk.told(cell::TICKS).wrapping_add(1));
    // SAFETY: the handler, which the program interrupts never; a volatile access.
    if let Some(f) = unsafe { HANDLER.0.get().read_volatile() } {
        f()
    }
}

struct Handler(UnsafeCell<Option<fn()>>);
// SAFETY: one core, and each access is one volatile access of a word.
unsafe impl Sync for Handler {}
static HANDLER: Handler = Handler(UnsafeCell::new(None));

/// From here on the timer's interrupt calls this too.
pub(crate) fn on_tick(f: fn()) {
    // SAFETY: as above.
    unsafe { HANDLER.0.get().write_volatile(Some(f)) }
}

/// Ends the boot: 0 for a scenario that has come to its end, or what failed.
pub fn end(failure: u16) -> ! {
    unsafe extern "Rust" {
        fn relume_stop() -> !;
    }
    let desk: Handle<'_> = Handle(PhantomData);
    let status = if failure == 0 {
        abi::FINISHED
    } else {
        desk.tell(cell::FAILURE, failure);
        abi::FAILED
    };
    desk.tell(cell::STATUS, status);
    // SAFETY: defined by the machine's crate, and safe to call anywhere.
    unsafe { relume_stop() }
}

/// Ends the boot after a panic.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, |l| l.line());
    end(abi::PANICKED | line as u16 & 0x7FF)
}
