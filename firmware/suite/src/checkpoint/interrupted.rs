//! On a machine: a program that works with more values than there are registers, and a timer's
//! handler that takes checkpoints of it. After a cut the program is brought back into the handler,
//! which returns to what it has interrupted. On ARMv6-M the handler is refused, and nothing is
//! written.

use super::target::{ASIDE, Aside, Planted, STACK, forget, mix, restart};
use super::{EARLY, FORGOTTEN, PROGRAM};
use crate::abi::{cell, code, saved};
use crate::mailbox::on::{Handle, MACHINE};
use crate::{Mapped, Scene, check, machine, ok};
use checkpoint::{Checkpointer, Error, Images, Outcome, Slots, Stack, Store};
use core::cell::UnsafeCell;
use core::hint::black_box;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nvmem::mapped;

/// Cells of the mailbox: the checkpoints that were taken, and those that a restore has brought
/// back.
const TAKEN: u16 = 0;
const RESTORED: u16 = 1;
const SAVED: u16 = cell::SAVED - cell::OWN;
const OPEN: u16 = cell::OPEN - cell::OWN;

/// ARMv6-M does not tell whether a handler has preempted another one.
const REFUSED: bool = cfg!(all(target_arch = "arm", not(target_abi = "eabihf")));

pub(super) fn interrupted<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let all = 0..region.len() as u32;
    let images = ok!(scene, Images::<_, 2>::open(region, all, PROGRAM));
    run(scene, Slots::new(images, Stack));
}

fn run<M: Mapped, S: Store>(scene: &Scene<'_, M>, slots: S) {
    let bug = scene.argument();
    let slots = Planted {
        slots,
        early: bug == EARLY,
    };
    // SAFETY: the linker script's; this is the stack that we run on.
    let segments = unsafe {
        checkpoint::segments!(statics: _data.._bss_end, heap: _heap.._heap_end, stack: _stack_low.._stack_top)
    };
    type Place<S> = MaybeUninit<Checkpointer<Planted<S>, STACK>>;
    const { assert!(size_of::<Place<S>>() <= size_of::<Aside>()) };
    // SAFETY: large enough, aligned, and used here only.
    unsafe { (&raw mut ASIDE).write_bytes(0, 1) };
    // SAFETY: as above.
    let place = unsafe { &mut *(&raw mut ASIDE).cast::<Place<S>>() };
    let ck = Checkpointer::init(place, slots, segments, restart);
    // The handler does nothing yet. Where it takes a checkpoint before the restore it is refused.
    // SAFETY: of no boot but one of this image.
    let why = unsafe { ck.restore() };
    check!(scene, matches!(why, Error::NoImage));
    // Nothing was ever kept, as far as anybody knows.
    check!(scene, scene.read_cell(TAKEN) == 0);
    check!(
        scene,
        REFUSED || matches!(scene.read_cell(SAVED), saved::NOTHING | saved::BEGUN)
    );
    CK.set((&raw mut *ck).addr());
    machine::on_tick(power_low::<Planted<S>>);
    for round in 1..=scene.rounds(1).min(MOST) {
        ARMED.set(1);
        scene.write_cell(OPEN, 1);
        let (sum, right) = work(round.into());
        scene.write_cell(OPEN, 0);
        ARMED.set(0);
        check!(scene, right && sum == expected(round.into()));
    }
    check!(scene, !REFUSED || blank());
}

/// Whether nothing was ever written.
fn blank() -> bool {
    let start = MACHINE.nvm as usize as *const u8;
    // SAFETY: the non-volatile memory, which nobody writes to in the meantime.
    (0..2 * super::SLOT).all(|i| unsafe { start.wrapping_add(i).read_volatile() } == 0)
}

/// The largest number of operations, even if the mailbox asks for more.
const MOST: u16 = 2_000;
/// Between two checkpoints of a timer that comes often.
const TICKS: usize = 8;

/// A static that the handler and the program share.
struct Shared(UnsafeCell<usize>);
// SAFETY: one core, and each access is one volatile access of a word.
unsafe impl Sync for Shared {}
impl Shared {
    const fn new() -> Self {
        Shared(UnsafeCell::new(0))
    }
    fn get(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.0.get().read_volatile() }
    }
    fn set(&self, v: usize) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(v) }
    }
}
/// Where the checkpointer is.
static CK: Shared = Shared::new();
static ARMED: Shared = Shared::new();
/// Ticks, and checkpoints: they are in the images.
static TICK: Shared = Shared::new();
static NUMBER: Shared = Shared::new();

/// The handler: takes a checkpoint, and is brought back to here.
fn power_low<S: Store>() {
    if ARMED.get() == 0 {
        return;
    }
    TICK.set(TICK.get() + 1);
    if TICK.get() % TICKS != 1 {
        return;
    }
    let mailbox: Handle<'_> = Handle(PhantomData);
    let read_cell = |i: u16| mailbox.read_cell(cell::OWN + i);
    let write_cell = |i: u16, v: u16| {
        mapped::barrier();
        mailbox.write_cell(cell::OWN + i, v);
        mapped::barrier();
    };
    NUMBER.set(NUMBER.get() + 1);
    let number = NUMBER.get() as u16;
    write_cell(SAVED, saved::BEGUN);
    // SAFETY: what `run` has put there, and does not use any more.
    let ck = unsafe { &mut *(CK.get() as *mut Checkpointer<S, STACK>) };
    // SAFETY: no DMA; the handler of the only interrupt that there is.
    match unsafe { ck.checkpoint() } {
        Err(Error::NotResumable) if REFUSED && blank() => {}
        Ok(_) if REFUSED => machine::end(const { code(file!(), line!()) }),
        Ok(Outcome::Taken) => write_cell(TAKEN, number),
        Ok(Outcome::Restored(r)) => {
            // This one, or the one before it; nothing older, and nothing that is damaged.
            if r.damaged != 0
                || number != read_cell(TAKEN) && number != read_cell(TAKEN).wrapping_add(1)
            {
                machine::end(const { code(file!(), line!()) })
            }
            write_cell(TAKEN, number);
            write_cell(RESTORED, number);
            match mailbox.read_cell(cell::ARGUMENT) {
                // SAFETY: the planted bugs: a handler that does not keep what it must.
                FORGOTTEN => unsafe { forget::registers() },
                #[cfg(target_abi = "eabihf")]
                // SAFETY: as above.
                super::NO_FPU => unsafe { forget::fpu() },
                _ => {}
            }
        }
        Err(_) => machine::end(const { code(file!(), line!()) }),
    }
    write_cell(SAVED, saved::COMPLETE);
    write_cell(SAVED, saved::OVER);
}

const VALUES: usize = 10;

const fn expected(seed: u32) -> u32 {
    let (mut sum, mut i) = (seed, 0);
    while i < VALUES as u32 {
        sum = mix(sum, mix(seed, i));
        i += 1;
    }
    sum
}

/// Values in registers and on the stack, with the FPU's where there is one.
#[inline(never)]
fn work(seed: u32) -> (u32, bool) {
    let seed = black_box(seed);
    #[cfg(target_abi = "eabihf")]
    let f: [f32; 20] = core::array::from_fn(|i| black_box((seed * 32 + i as u32) as f32));
    let v: [u32; VALUES] = core::array::from_fn(|i| mix(seed, i as u32));
    let v = v.map(black_box);
    let sum = v.iter().fold(seed, |sum, v| mix(sum, *v));
    let right = v.iter().zip(0..).all(|(v, i)| *v == mix(seed, i));
    #[cfg(target_abi = "eabihf")]
    let right = right
        && f.map(|f| f + 1.0)
            .iter()
            .zip(1..)
            .all(|(f, i)| *f == (seed * 32 + i) as f32);
    (sum, right)
}
