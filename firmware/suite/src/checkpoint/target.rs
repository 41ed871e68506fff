//! On a machine: a recursion that allocates at each level and takes a checkpoint in each of its
//! leaves, with more values at hand than there are registers. It is the same program whether it is
//! interrupted or not.

use super::{EARLY, FORGOTTEN, OWN_STACK, PROGRAM};
use crate::flash::Flash;
use crate::{Mapped, Scene, check, ok, progress};
use checkpoint::nvmem::device::Medium;
use checkpoint::{
    Checkpointer, CopyIfChange, Error, Full, HeapTracker, Images, Memory, Mode, Outcome, Restored,
    Segments, Slots, Store, TrackedHeap,
};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

const HEAP_BYTES: usize = 256;

#[repr(C, align(8))]
struct Area([u8; HEAP_BYTES]);
/// The heap. Start-up leaves it alone: it is zeroed when the program first starts.
#[unsafe(link_section = ".heap")]
static mut AREA: Area = Area([0; HEAP_BYTES]);

static HEAP: TrackedHeap<FirstFit, { HEAP_BYTES / 128 }> =
    TrackedHeap::new(FirstFit(Cell::new(None)), (&raw const AREA).cast());

/// Room for a checkpointer of any kind, where no image reaches.
#[repr(C, align(16))]
pub(super) struct Aside(pub(super) MaybeUninit<[u8; 2560]>);
#[unsafe(link_section = ".uninit.checkpointer")]
pub(super) static mut ASIDE: Aside = Aside(MaybeUninit::uninit());
pub(super) const STACK: usize = 2048;

pub(super) fn fram<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _, _, 2>(scene, region, HeapTracker(&HEAP));
}

pub(super) fn full<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _, _, 2>(scene, region, Full);
}

pub(super) fn flash<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let mode = CopyIfChange(HeapTracker(&HEAP));
    run::<M, _, _, 3>(scene, Flash::<M, 0xFF>(region), mode);
}

/// Slots that say once too often that they are empty, if this bug is planted.
pub(super) struct Planted<S> {
    pub(super) slots: S,
    pub(super) early: bool,
}

// SAFETY: the promises are those of the slots. The planted bug breaks one on purpose: the rig must
// notice that a boot began again.
unsafe impl<S: Store> Store for Planted<S> {
    type Error = S::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<S::Error>> {
        self.slots.save(memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<S::Error>> {
        if self.early {
            return Err(Error::NoImage);
        }
        self.slots.load(memory)
    }
}

pub(super) fn restart() -> ! {
    crate::machine::end(const { crate::code(file!(), line!()) })
}

fn run<M: Mapped, D: Medium, W: Mode, const N: usize>(scene: &Scene<'_, M>, medium: D, mode: W) {
    let all = 0..medium.capacity();
    let images = ok!(scene, Images::<_, N>::open(medium, all, PROGRAM));
    let bug = scene.argument();
    let mut slots = Planted {
        slots: Slots::new(images, mode),
        early: bug == EARLY,
    };
    // SAFETY: the linker script's; this is the stack that we run on.
    let segments = unsafe {
        checkpoint::segments!(statics: _data.._bss_end, heap: _heap.._heap_end, stack: _stack_low.._stack_top)
    };
    type Place<S> = MaybeUninit<Checkpointer<Planted<S>, STACK>>;
    const { assert!(size_of::<Place<Slots<D, W, N>>>() <= size_of::<Aside>()) };
    // What is undefined on the stack comes from here, too.
    // SAFETY: large enough, aligned, and used here only.
    unsafe { (&raw mut ASIDE).write_bytes(0, 1) };
    if bug == OWN_STACK {
        load_here(&mut slots, segments);
    }
    // SAFETY: as above.
    let place = unsafe { &mut *(&raw mut ASIDE).cast::<Place<Slots<D, W, N>>>() };
    let ck = Checkpointer::init(place, slots, segments, restart);
    // SAFETY: of no boot but one of this image; interrupts touch nothing but the mailbox.
    let why = unsafe { ck.restore() };
    check!(scene, matches!(why, Error::NoImage));
    // The second cuts of the rig are made before this.
    scene.write_cell(1, 0);
    // Nothing was ever kept, or a checkpoint was before the restore.
    check!(scene, scene.read_cell(0) == 0);
    // SAFETY: nothing is allocated yet.
    unsafe { FirstFit::start() };
    let mut search = Search {
        ck,
        scene,
        bug,
        done: 0,
    };
    let rounds = scene.rounds(1).min(MOST);
    for round in 1..=rounds {
        let total = search.descend(0, None, 1);
        check!(scene, search.done == LEAVES * round && total == EXPECTED);
    }
    check!(
        scene,
        HEAP.occupation() == 0 && scene.read_cell(0) == LEAVES * rounds
    );
}

/// The planted bug: memory is loaded by somebody whose own frame is in it.
#[inline(never)]
fn load_here<S: Store>(slots: &mut S, segments: Segments) {
    // SAFETY: there is none; that is the bug.
    let mut memory = unsafe { segments.memory() };
    let _ = black_box(slots.load(&mut memory));
}

const DEPTH: u16 = 2;
const BRANCHES: u32 = 2;
const LEAVES: u16 = 4;
/// The largest number of operations, even if the mailbox asks for more.
const MOST: u16 = 12;
/// Values that live across a checkpoint: more than there are registers for.
const VALUES: usize = 12;

pub(super) const fn mix(a: u32, b: u32) -> u32 {
    let x = (a ^ b.rotate_left(13)).wrapping_mul(0x9E37_79B9);
    x ^ x >> 15
}

/// What the recursion gives, without heap and checkpoints.
const fn expected(depth: u16, path: u32) -> u32 {
    let mut sum = mix(path, depth as u32);
    if depth == DEPTH {
        let mut i = 0;
        while i < VALUES as u32 {
            sum = mix(sum, mix(path, i));
            i += 1;
        }
        return sum;
    }
    let mut b = 0;
    while b < BRANCHES {
        sum = mix(sum, expected(depth + 1, path * 4 + b));
        b += 1;
    }
    sum
}
const EXPECTED: u32 = expected(0, 1);

/// What is allocated at each level; the leaves see all of them.
struct Node<'n> {
    path: u32,
    up: Option<&'n Node<'n>>,
}

struct Search<'s, 'm, M: Mapped, S: Store> {
    ck: &'s mut Checkpointer<S, STACK>,
    scene: &'s Scene<'m, M>,
    bug: u16,
    done: u16,
}

impl<M: Mapped, S: Store> Search<'_, '_, M, S> {
    #[inline(never)]
    fn descend(&mut self, depth: u16, up: Option<&Node<'_>>, path: u32) -> u32 {
        // Of another size at each level.
        let layout = Layout::new::<Node<'_>>();
        let size = layout.size() + 20 * usize::from(depth);
        let Ok(layout) = Layout::from_size_align(size, layout.align()) else {
            return 0;
        };
        // SAFETY: of a size that is not zero.
        let at = unsafe { HEAP.alloc(layout) };
        check!(self.scene, !at.is_null());
        let at = at.cast::<Node<'_>>();
        // SAFETY: ours, large enough and aligned.
        let node = unsafe {
            at.write(Node { path, up });
            &*at
        };
        let mut sum = mix(path, depth.into());
        if depth == DEPTH {
            sum = self.leaf(node, sum);
        } else {
            for b in 0..BRANCHES {
                sum = mix(sum, self.descend(depth + 1, Some(node), path * 4 + b));
            }
        }
        // SAFETY: from there, and nobody has it any more.
        unsafe { HEAP.dealloc(at.cast(), layout) };
        sum
    }

    /// Values that only registers and this frame know, on both sides of a checkpoint.
    #[inline(never)]
    fn leaf(&mut self, node: &Node<'_>, sum: u32) -> u32 {
        let path = black_box(node.path);
        let v: [u32; VALUES] = core::array::from_fn(|i| mix(path, i as u32));
        let v = v.map(black_box);
        #[cfg(target_abi = "eabihf")]
        let f: [f32; 8] = core::array::from_fn(|i| (path * 8 + i as u32) as f32);
        #[cfg(target_abi = "eabihf")]
        let f = f.map(black_box);
        // SAFETY: no DMA; and the mailbox, which is outside of memory, is read as a volatile one.
        let returned = unsafe { self.ck.checkpoint() };
        if let Ok(Outcome::Restored(_)) = returned {
            match self.bug {
                // SAFETY: the planted bugs: a call that does not keep what it must.
                FORGOTTEN => unsafe { forget::registers() },
                #[cfg(target_abi = "eabihf")]
                // SAFETY: as above.
                super::NO_FPU => unsafe { forget::fpu() },
                _ => {}
            }
        }
        let sum = v.iter().fold(sum, |sum, v| mix(sum, *v));
        #[cfg(target_abi = "eabihf")]
        for (i, f) in f.iter().enumerate() {
            check!(self.scene, *f == (path * 8 + i as u32) as f32);
        }
        match ok!(self.scene, returned) {
            Outcome::Taken => {}
            Outcome::Restored(r) => {
                check!(self.scene, r.damaged == 0);
                self.scene.write_cell(1, self.done + 1);
            }
        }
        self.done += 1;
        progress!(self.scene, self.done);
        self.scene.write_cell(0, self.done);
        // The list through the heap: from the leaf to the root.
        let mut at = Some(node);
        let mut path = path;
        while let Some(node) = at {
            check!(self.scene, node.path == path);
            (at, path) = (node.up, path / 4);
        }
        check!(self.scene, path == 0);
        sum
    }
}

/// Functions that leave registers as no function may.
pub(super) mod forget {
    use core::arch::naked_asm;

    #[cfg(target_arch = "arm")]
    #[unsafe(naked)]
    pub unsafe extern "C" fn registers() {
        naked_asm!("mov r8, sp", "mov r9, sp", "mov r10, sp", "bx lr")
    }
    #[cfg(target_abi = "eabihf")]
    #[unsafe(naked)]
    pub unsafe extern "C" fn fpu() {
        naked_asm!(
            ".fpu fpv4-sp-d16",
            "vmov d8, r0, r1",
            "vmov d9, r0, r1",
            "vmov d10, r0, r1",
            "vmov d11, r0, r1",
            "bx lr"
        )
    }
    #[cfg(target_arch = "riscv32")]
    #[unsafe(naked)]
    pub unsafe extern "C" fn registers() {
        naked_asm!("mv s2, sp", "mv s3, sp", "mv s4, sp", "ret")
    }
    #[cfg(target_arch = "msp430")]
    #[unsafe(naked)]
    pub unsafe extern "C" fn registers() {
        naked_asm!("mov r1, r7", "mov r1, r8", "mov r1, r9", "ret")
    }
}

/// An allocator as many have it: the first piece that is large enough, and what is free is a list
/// through what is free.
struct FirstFit(Cell<Option<NonNull<Free>>>);
// SAFETY: one core, and no interrupt allocates.
unsafe impl Sync for FirstFit {}

struct Free {
    size: usize,
    next: Option<NonNull<Free>>,
}

impl FirstFit {
    /// Zeroes the heap and makes it one piece.
    ///
    /// # Safety
    /// Nothing is allocated.
    unsafe fn start() {
        let all = (&raw mut AREA).cast::<u8>();
        // SAFETY: the heap's bytes, which nobody uses.
        unsafe {
            all.write_bytes(0, HEAP_BYTES);
            all.cast::<Free>().write(Free {
                size: HEAP_BYTES,
                next: None,
            });
        }
        HEAP.inner().0.set(NonNull::new(all.cast()));
    }

    fn size(layout: Layout) -> usize {
        layout.size().next_multiple_of(8)
    }
}

// SAFETY: a piece is in the list or given out. The heap is aligned to 8, and so are all sizes.
unsafe impl GlobalAlloc for FirstFit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = Self::size(layout);
        let mut before: Option<NonNull<Free>> = None;
        let mut at = self.0.get();
        while let Some(piece) = at.map(NonNull::as_ptr) {
            // SAFETY: pieces of the list are free and initialised.
            unsafe {
                let next = (*piece).next;
                if (*piece).size >= size {
                    let rest = (*piece).size - size;
                    let left = if rest == 0 {
                        next
                    } else {
                        let rest_at = piece.cast::<u8>().wrapping_add(size).cast::<Free>();
                        rest_at.write(Free { size: rest, next });
                        NonNull::new(rest_at)
                    };
                    match before {
                        Some(b) => (*b.as_ptr()).next = left,
                        None => self.0.set(left),
                    }
                    return piece.cast();
                }
                (before, at) = (at, next);
            }
        }
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let size = Self::size(layout);
        // SAFETY: given up by the caller.
        unsafe {
            p.cast::<Free>().write(Free {
                size,
                next: self.0.get(),
            })
        };
        self.0.set(NonNull::new(p.cast()));
    }
}
