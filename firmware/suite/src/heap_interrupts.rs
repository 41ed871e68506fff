//! A persist that an interrupt makes, at any instruction of the heap's operations: a cut after it
//! finds what there was at that instruction, and without a cut the operation goes on as if nothing
//! had been.

use crate::abi::{cell, saved};
use crate::heap::{BYTES, Buffer, CONFIG, Error, Nv, On, Program, RAM};
use crate::heap_driver::Driver;
use crate::heap_list::{List, View};
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use vnv_heap::{JustInTime, OpenError, Saver, brand};

/// The scenarios of the image `heap-interrupt`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "heap-interrupt",
            primitive: "vnv-heap",
            scenarios: &[
                Scenario::interrupted("write_interrupted", BYTES, |s| life(s, List::PROGRAMS[1])),
                Scenario::interrupted("trees_interrupted", BYTES, |s| life(s, List::PROGRAMS[2])),
            ],
        }
    }
}

static POWER_LOW: Saver = Saver::new();

/// The cells of the mailbox. The operations that were there when this life began; then the
/// operation that was begun last, and the one that has ended last, now and when the handler was
/// called.
const FIRST: u16 = 0;
const BEGUN: u16 = 1;
const ENDED: u16 = 2;
const AT_BEGUN: u16 = 3;
const AT_ENDED: u16 = 4;
/// Whether something has changed since: [`YES`], or [`GIVEN_UP`] when all is.
const CHANGED: u16 = 5;
const YES: u16 = 1;
const GIVEN_UP: u16 = 2;
const SAVED: u16 = cell::SAVED - cell::OWN;
/// Whether an interrupt does something: 1, or 0 again.
const OPEN: u16 = cell::OPEN - cell::OWN;

fn life<M: Mapped>(scene: &mut Scene<'_, M>, ops: &[List]) {
    let mut nv = Driver::new(scene.region(), scene.argument());
    if !boot(scene, &mut nv, ops, false) {
        scene.write_cell(CHANGED, GIVEN_UP);
        scene.write_cell(SAVED, saved::NOTHING);
        scene.write_cell(FIRST, 0);
        check!(scene, boot(scene, &mut nv, ops, true));
    }
}

/// Whether it came to its end; else the heap was interrupted, or an operation was.
#[inline(never)]
fn boot<M: Mapped>(scene: &Scene<'_, M>, nv: Nv<'_, '_, M>, ops: &[List], format: bool) -> bool {
    let mut ram = Buffer::<RAM>::new();
    let ram = ram.bytes();
    let ram_at = ram.as_ptr() as usize;
    brand!(b);
    let heap = if format {
        On::<List, _, JustInTime>::format(b, nv, ram, CONFIG, List::root)
    } else {
        On::<List, _, JustInTime>::open(b, nv, ram, CONFIG, List::root)
    };
    let mut heap = match heap {
        Err(OpenError::Interrupted) => {
            // Something has changed, and no persist has come to its end since.
            check!(scene, !format && scene.read_cell(SAVED) != saved::COMPLETE);
            check!(
                scene,
                scene.read_cell(BEGUN) > scene.read_cell(FIRST)
                    || scene.read_cell(CHANGED) == GIVEN_UP
            );
            return false;
        }
        heap => ok!(scene, heap),
    };
    let audit = ok!(scene, heap.audit());
    check!(scene, audit.reachable == audit.allocated);
    let Some(first) = arrived(scene, &heap, ops) else {
        return false;
    };
    scene.write_cell(FIRST, first);
    scene.write_cell(CHANGED, 0);
    scene.write_cell(SAVED, saved::NOTHING);
    let all = ops.len() as u16;
    let went = heap.attach(&POWER_LOW, || {
        power_may_fail(ram_at);
        scene.write_cell(OPEN, 1);
        let went = work(scene, &heap, ops, first);
        scene.write_cell(OPEN, 0);
        power_may_fail(0);
        went
    });
    let (done, view) = ok!(scene, went.and_then(|w| w));
    check!(
        scene,
        done == all.max(first) && view == Some(List::after(ops))
    );
    true
}

/// Does what is left, and looks at it.
#[inline(never)]
fn work<'h, M: Mapped>(
    scene: &Scene<'_, M>,
    heap: &On<'h, List, Nv<'_, '_, M>, JustInTime>,
    ops: &[List],
    first: u16,
) -> Result<(u16, Option<View>), Error> {
    for (n, op) in (first + 1..).zip(&ops[usize::from(first)..]) {
        scene.write_cell(BEGUN, n);
        drop(heap.root_mut()?);
        scene.write_cell(CHANGED, YES);
        op.run(heap)?;
        scene.write_cell(ENDED, n);
    }
    look(heap)
}

#[inline(never)]
fn look<'h, M: Mapped>(
    heap: &On<'h, List, Nv<'_, '_, M>, JustInTime>,
) -> Result<(u16, Option<View>), Error> {
    Ok(match List::seen(heap)? {
        Some((done, view)) => (done, Some(view)),
        None => (u16::MAX, None),
    })
}

/// What is there must be what was there when it was saved. The operations that are whole, if all
/// are.
#[inline(never)]
fn arrived<'h, M: Mapped>(
    scene: &Scene<'_, M>,
    heap: &On<'h, List, Nv<'_, '_, M>, JustInTime>,
    ops: &[List],
) -> Option<u16> {
    let (ended, begun) = match scene.read_cell(SAVED) {
        saved::NOTHING => {
            // What has changed would have to be saved, or else the heap was interrupted.
            check!(scene, scene.read_cell(CHANGED) != YES);
            (scene.read_cell(FIRST), scene.read_cell(FIRST))
        }
        _ => (scene.read_cell(AT_ENDED), scene.read_cell(AT_BEGUN)),
    };
    let (done, view) = ok!(scene, look(heap));
    let before = List::after(&ops[..usize::from(ended)]);
    if ended == begun {
        check!(scene, done == ended && view == Some(before));
        return Some(done);
    }
    check!(scene, begun == ended + 1);
    let after = List::after(&ops[..usize::from(begun)]);
    if done == ended {
        check!(scene, view == Some(before));
        return Some(done);
    }
    if done == begun && view == Some(after) {
        return Some(done);
    }
    let op = ops[usize::from(ended)];
    check!(
        scene,
        (done == begun || view.is_none()) && op.passes(before, view)
    );
    None
}

/// On a machine, the timer's interrupt saves from here on, and the RAM at this address is lost
/// then; 0 for no longer.
fn power_may_fail(ram: usize) {
    #[cfg(target_os = "none")]
    handler::begin(ram);
    let _ = ram;
}

#[cfg(target_os = "none")]
mod handler {
    use super::{AT_BEGUN, AT_ENDED, BEGUN, CONFIG, ENDED, POWER_LOW, SAVED};
    use crate::abi::{cell, code, saved};
    use crate::heap::lose;
    use crate::heap_driver::WRITTEN;
    use crate::machine;
    use crate::mailbox::on::Handle;
    use core::cell::UnsafeCell;
    use core::marker::PhantomData;
    use nvmem::mapped;
    use vnv_heap::CostModel;

    /// What a persist may write.
    const BOUND: u32 = CONFIG.worst_case(&CostModel::ESP32C3_MB85RS4MT).bytes;

    struct Address(UnsafeCell<usize>);
    // SAFETY: one core, and each access is one volatile access of a word.
    unsafe impl Sync for Address {}
    static BUFFER: Address = Address(UnsafeCell::new(0));

    pub(super) fn begin(ram: usize) {
        // SAFETY: as above.
        unsafe { BUFFER.0.get().write_volatile(ram) };
        machine::on_tick(power_low);
    }

    /// Saves, loses the heap's RAM, and brings it back.
    fn power_low() {
        // SAFETY: as above.
        let ram = unsafe { BUFFER.0.get().read_volatile() };
        if ram == 0 {
            return;
        }
        let mailbox: Handle<'_> = Handle(PhantomData);
        let read_cell = |i: u16| mailbox.read_cell(cell::OWN + i);
        let write_cell = |i: u16, v: u16| {
            mapped::barrier();
            mailbox.write_cell(cell::OWN + i, v);
            mapped::barrier();
        };
        write_cell(AT_BEGUN, read_cell(BEGUN));
        write_cell(AT_ENDED, read_cell(ENDED));
        write_cell(SAVED, saved::BEGUN);
        let before = WRITTEN.get();
        // SAFETY: in the handler of an interrupt, on the core that runs the heap.
        if unsafe { POWER_LOW.persist() }.is_err() {
            machine::end(const { code(file!(), line!()) })
        }
        if u32::from(WRITTEN.get().wrapping_sub(before)) > BOUND {
            machine::end(const { code(file!(), line!()) })
        }
        write_cell(SAVED, saved::COMPLETE);
        lose(ram);
        write_cell(SAVED, saved::OVER);
        // SAFETY: as above; the rest of RAM is as it was.
        if unsafe { POWER_LOW.restore() }.is_err() {
            machine::end(const { code(file!(), line!()) })
        }
        write_cell(SAVED, saved::OVER);
    }
}
