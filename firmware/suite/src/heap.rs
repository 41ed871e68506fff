//! Scenarios of `vnv-heap`: programs of operations on a heap with so little RAM that nearly each of
//! them evicts, in both promises. What they do is in `heap_list` and `heap_queue`.

use crate::heap_driver::Driver;
use crate::heap_list::List;
use crate::heap_queue::Queue;
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use nvmem::device::Misuse;
use nvmem::{Medium, Persist};
use vnv_heap::{Config, Heap, JustInTime, Marked, OpenError, Promise, Snapshot, Unrooted, brand};

/// So many bytes for a heap, of which none is lost where they begin. No `repr(align)`: LLVM does
/// not keep it for a variable on MSP430.
#[repr(C)]
pub(crate) struct Buffer<const N: usize> {
    bytes: [u8; N],
    more: [u8; 7],
}

impl<const N: usize> Buffer<N> {
    pub(crate) fn new() -> Self {
        Buffer {
            bytes: [0; N],
            more: [0; 7],
        }
    }

    /// Aligned to 8.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let start: *mut u8 = (&raw mut *self).cast();
        // SAFETY: two arrays of bytes, one behind the other, and at most the length of the second
        // one is skipped.
        unsafe { core::slice::from_raw_parts_mut(start.add(start.align_offset(8)), N) }
    }
}

macro_rules! group {
    ($(#[$doc:meta])* $fn:ident: $name:literal, $program:ty, $promise:ty, $($i:literal $scenario:literal),+) => {
        $(#[$doc])*
        pub const fn $fn<M: Mapped>() -> Group<M> {
            const {
                Group {
                    name: $name,
                    primitive: "vnv-heap",
                    scenarios: &[$(Scenario::new(
                        $scenario,
                        BYTES,
                        |scene| life::<M, $promise, $program>(scene, <$program>::PROGRAMS[$i]),
                    )),+],
                }
            }
        }
    };
}
group! {
    /// Objects that own objects, with a save just in time.
    group: "heap", List, JustInTime, 0 "forget", 1 "write", 2 "trees"
}
group! {
    /// The same with snapshots.
    snapshot_group: "heap-snapshot", List, Snapshot, 0 "forget_snapshot", 1 "write_snapshot", 2 "trees_snapshot"
}
group! {
    /// A queue, with a save just in time.
    queue_group: "heap-queue", Queue, JustInTime, 0 "queue"
}
group! {
    /// A queue, with snapshots.
    queue_snapshot_group: "heap-queue-snapshot", Queue, Snapshot, 0 "queue_snapshot"
}

/// Operations beyond which a life in QEMU takes too long.
const MOST: u16 = 5_000;
pub(crate) const BYTES: usize = 640;
/// The largest objects have 24 bytes: four blocks at most.
pub(crate) const RAM: usize = 128;
pub(crate) const CONFIG: Config = Config {
    dirty_limit: 80,
    burst: 16,
    objects: 10,
    max_pins: 4,
    budget: None,
};

pub(crate) type Error = vnv_heap::Error<Misuse>;
pub(crate) type Nv<'a, 's, M> = &'a mut Driver<'s, M>;
pub(crate) type On<'h, T, S, P> = Heap<'h, <T as Program>::Root<'h>, S, P>;

/// What a heap is used for. After its last operation a program is where it began, so that it can go
/// round.
pub(crate) trait Program: Copy + 'static {
    /// The root, which counts the operations.
    type Root<'h>: Persist<At<'h> = Self::Root<'h>> + Marked<()>;
    /// What a heap shows.
    type View: PartialEq;

    /// The root of a new heap.
    fn root<'h, S: Medium<Error = Misuse>, P: Promise>(
        heap: &Heap<'h, Unrooted, S, P>,
    ) -> Result<Self::Root<'h>, Error>;
    /// What a heap must show after these operations.
    fn after(ops: &[Self]) -> Self::View;
    /// How many operations were done, and what it shows; `None` when something is neither old nor
    /// new.
    fn seen<'h, S: Medium<Error = Misuse>, P: Promise>(
        heap: &On<'h, Self, S, P>,
    ) -> Result<Option<(u16, Self::View)>, Error>;
    /// Does it, and counts.
    fn run<'h, S: Medium<Error = Misuse>, P: Promise>(
        self,
        heap: &On<'h, Self, S, P>,
    ) -> Result<(), Error>;
}

/// How a program makes sure of what it did; the RAM at `ram` may be lost meanwhile.
pub(crate) trait Save: Promise + Sized {
    fn save<'h, T: Program, S: Medium<Error = Misuse>>(
        heap: &mut On<'h, T, S, Self>,
        ram: usize,
    ) -> Result<(), Error>;
}
impl Save for JustInTime {
    #[inline(always)]
    fn save<'h, T: Program, S: Medium<Error = Misuse>>(
        heap: &mut On<'h, T, S, Self>,
        ram: usize,
    ) -> Result<(), Error> {
        heap.persist()?;
        lose(ram);
        heap.restore()
    }
}
impl Save for Snapshot {
    #[inline(always)]
    fn save<'h, T: Program, S: Medium<Error = Misuse>>(
        heap: &mut On<'h, T, S, Self>,
        _: usize,
    ) -> Result<(), Error> {
        heap.commit()
    }
}

/// On a machine, the buffer at this address loses its content.
pub(crate) fn lose(ram: usize) {
    #[cfg(target_os = "none")]
    for i in 0..RAM {
        // SAFETY: the heap's buffer, between a persist and its restore, when it may be lost;
        // nothing in it is held.
        unsafe { (ram as *mut u8).wrapping_add(i).write_volatile(0xA5) }
    }
    let _ = ram;
}

/// The cells of the mailbox, beside the first, which counts the operations that were saved: the
/// operation that was begun last, and the last one that has changed something.
const BEGUN: u16 = 1;
const CHANGED: u16 = 2;

/// Checks what is there, then does and saves what is left.
fn life<M: Mapped, P: Save, T: Program>(scene: &mut Scene<'_, M>, ops: &[T]) {
    let mut nv = Driver::new(scene.region(), scene.argument());
    if boot::<M, P, T>(scene, &mut nv, ops, false) {
        // Never with snapshots, and never after a completed persist unless something was begun
        // since.
        check!(scene, !P::SNAPSHOT);
        check!(scene, scene.read_cell(BEGUN) > scene.read_cell(0));
        scene.write_cell(CHANGED, 0);
        scene.write_cell(0, 0);
        let interrupted = boot::<M, P, T>(scene, &mut nv, ops, true);
        check!(scene, !interrupted);
    }
}

/// Whether the heap was interrupted.
#[inline(never)]
fn boot<M: Mapped, P: Save, T: Program>(
    scene: &Scene<'_, M>,
    nv: Nv<'_, '_, M>,
    ops: &[T],
    format: bool,
) -> bool {
    let mut ram = Buffer::<RAM>::new();
    let ram = ram.bytes();
    let ram_at = ram.as_ptr() as usize;
    brand!(b);
    let heap = if format {
        On::<T, _, P>::format(b, nv, ram, CONFIG, T::root)
    } else {
        On::<T, _, P>::open(b, nv, ram, CONFIG, T::root)
    };
    let mut heap = match heap {
        Err(OpenError::Interrupted) => return true,
        heap => ok!(scene, heap),
    };
    if format {
        scene.write_cell(BEGUN, 0);
    }
    let audit = ok!(scene, heap.audit());
    check!(scene, audit.reachable == audit.allocated);
    let (done, seen) = seen::<M, P, T>(scene, &heap);
    let saved = scene.read_cell(0);
    if done != saved {
        // It was begun, and its save was completed.
        check!(scene, done == saved + 1 && scene.read_cell(BEGUN) == done);
        scene.write_cell(0, done);
    } else {
        // Just in time, what has changed is saved, or else the heap was interrupted.
        check!(scene, P::SNAPSHOT || scene.read_cell(CHANGED) != saved + 1);
    }
    check!(
        scene,
        seen == T::after(&ops[..usize::from(done) % ops.len()])
    );
    let all = scene.rounds(ops.len() as u16).min(MOST);
    for n in done..all {
        scene.write_cell(BEGUN, n + 1);
        // Held to be written, without more: from here on something may have changed.
        drop(ok!(scene, heap.root_mut()));
        scene.write_cell(CHANGED, n + 1);
        ok!(scene, ops[usize::from(n) % ops.len()].run(&heap));
        ok!(scene, P::save::<T, _>(&mut heap, ram_at));
        scene.write_cell(0, n + 1);
    }
    let (done, seen) = self::seen::<M, P, T>(scene, &heap);
    check!(
        scene,
        done == all && seen == T::after(&ops[..usize::from(done) % ops.len()])
    );
    false
}

#[inline(never)]
fn seen<'h, M: Mapped, P: Promise, T: Program>(
    scene: &Scene<'_, M>,
    heap: &On<'h, T, Nv<'_, '_, M>, P>,
) -> (u16, T::View) {
    match ok!(scene, T::seen(heap)) {
        Some(seen) => seen,
        None => scene.fail(
            const { crate::code(file!(), line!()) },
            "neither old nor new",
        ),
    }
}
