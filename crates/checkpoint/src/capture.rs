//! Checkpoints of a running program: registers, stack and memory are saved as one state.
//! `checkpoint` returns once after saving, and once more after each restore of that state.
//!
//! ```text
//!  program's stack          private stack (in the Checkpointer)     medium
//!  ----------------         -----------------------------------     ------
//!  checkpoint()
//!    capture: push the
//!    registers (frame) ---> save(): Store::save(memory) ----------> image, context =
//!    <--- CAPTURED ---------                                        frame address | flags
//!  returns Taken
//!        ~~~~~ power lost, program starts again ~~~~~
//!  restore()
//!    capture -------------> load(): Store::load(memory) <---------- image, context
//!                           resume(frame, RESUMED)
//!    registers popped <-----
//!    from the frame
//!  checkpoint() returns Restored
//! ```
//!
//! Why this is safe:
//! - Saving and restoring run on a private stack that lies in no segment, so a restore never
//!   overwrites the stack it runs on.
//! - Interrupts are off from the capture until the registers are popped again.
//! - Code on the private stack refers only to `State`, never to the bytes of the stack itself.
//! - `restore` resumes only frames that lie in the stack segment and are aligned. A restore that
//!   wrote a part of memory and then failed resets the machine.

use crate::{Error, Memory, Restored, Store, arch};
use core::mem::MaybeUninit;

/// The addresses of a program's statics, heap and stack. See [`segments!`](crate::segments).
#[derive(Debug, Clone, Copy)]
pub struct Segments {
    parts: [(*mut u8, *mut u8); 3],
    heap_used: Option<fn() -> usize>,
}

impl Segments {
    /// Segments by their addresses, each from the start to the byte after the end.
    ///
    /// # Safety
    /// - Each range is one contiguous piece of RAM that may be read at any time, and the three do
    ///   not overlap.
    /// - The stack is the whole of the one that the program runs on when it takes a checkpoint.
    /// - The statics are all variables that the program needs after a restore. They include no
    ///   variable of the store or of its medium.
    pub const unsafe fn new(
        statics: (*mut u8, *mut u8),
        heap: (*mut u8, *mut u8),
        stack: (*mut u8, *mut u8),
    ) -> Self {
        Segments {
            parts: [statics, heap, stack],
            heap_used: None,
        }
    }

    /// Sets a function that returns how many bytes of the heap are in use, from its start. Without
    /// it, all of the heap counts as in use. The function is called with interrupts off.
    #[must_use]
    pub const fn heap_used(mut self, bytes: fn() -> usize) -> Self {
        self.heap_used = Some(bytes);
        self
    }

    fn stack(&self) -> (usize, usize) {
        let (start, end) = self.parts[2];
        (start.addr(), end.addr())
    }

    /// Whether any of these addresses lies in a segment.
    fn overlaps(&self, from: usize, to: usize) -> bool {
        let disjoint = |(start, end): &(*mut u8, *mut u8)| to <= start.addr() || end.addr() <= from;
        !self.parts.iter().all(disjoint)
    }

    /// The memory of these segments, with all of the stack in use.
    ///
    /// # Safety
    /// As [`Memory::from_addresses`].
    pub unsafe fn memory(&self) -> Memory<'static> {
        let [statics, heap, stack] = self.parts;
        // SAFETY: *Segments are memory*: promised by the callers of `Segments::new` and of this.
        let memory = unsafe { Memory::from_addresses(statics, heap, stack) };
        match self.heap_used {
            Some(used) => memory.heap_used(used()),
            None => memory,
        }
    }
}

/// [`Segments`] from the symbols of a linker script.
///
/// ```ignore
/// // With `cortex-m-rt`. Its section `.uninit` lies behind the statics and is in no image.
/// let segments = unsafe { checkpoint::segments!(statics: __sdata..__ebss, heap: __sheap.._heap_end, stack: _stack_end.._stack_start) };
/// ```
///
/// # Safety
/// Expands to a call of [`Segments::new`], and is as unsafe.
#[macro_export]
macro_rules! segments {
    (statics: $statics:ident..$statics_end:ident, heap: $heap:ident..$heap_end:ident, stack: $stack:ident..$stack_end:ident) => {{
        unsafe extern "C" {
            static mut $statics: u8;
            static mut $statics_end: u8;
            static mut $heap: u8;
            static mut $heap_end: u8;
            static mut $stack: u8;
            static mut $stack_end: u8;
        }
        $crate::Segments::new(
            (&raw mut $statics, &raw mut $statics_end),
            (&raw mut $heap, &raw mut $heap_end),
            (&raw mut $stack, &raw mut $stack_end),
        )
    }};
}

/// Which of its two returns [`Checkpointer::checkpoint`] made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The state was saved, and the program continues.
    Taken,
    /// Power was lost since, and [`Checkpointer::restore`] brought the program back to this call.
    Restored(Restored),
}

/// Aligned as the calling conventions require. Not more: LLVM does not keep a larger alignment for
/// a variable on MSP430.
#[repr(C)]
#[cfg_attr(target_arch = "msp430", repr(align(2)))]
#[cfg_attr(not(target_arch = "msp430"), repr(align(16)))]
struct Stack<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

/// Takes checkpoints of the running program and restores them: memory, stack and registers.
///
/// It must lie outside of all segments. It saves and loads on a private stack of `STACK` bytes
/// inside itself.
pub struct Checkpointer<S: Store, const STACK: usize = 2048> {
    /// First, so that an overflow of this stack does not reach `state`.
    stack: Stack<STACK>,
    state: State<S>,
}

// INVARIANT "Nothing under its feet": a restore does not write to memory that it runs on, and no
// reference covers the private stack while it is used. The stack lies beside the `State` that the
// callbacks refer to, and `Error::InsideSegments` refuses a `Checkpointer` in a segment.
// Noticed by: planted in the rig: the image is loaded on the program's own stack.
/// Code on the private stack refers to this alone, never to the stack itself.
struct State<S: Store> {
    store: S,
    segments: Segments,
    restart: fn() -> !,
    /// Flags that the context holds beside the frame's address.
    context_flags: u32,
    outcome: Result<Option<Restored>, Error<S::Error>>,
    /// `restore` was called in this boot.
    restored: bool,
}

/// What `capture` returns: `CAPTURED` from its callback, `RESUMED` after a restore.
const CAPTURED: usize = 0;
const RESUMED: usize = 1;

impl<S: Store, const STACK: usize> Checkpointer<S, STACK> {
    /// Initialises a `Checkpointer` in memory outside of all segments: a static in a section of its
    /// own, `.uninit` with `cortex-m-rt` and `riscv-rt`.
    ///
    /// `restart` is called when a restore wrote a part of memory and then failed. It must reset the
    /// machine. It runs on the private stack, and the contents of the statics are undefined.
    pub fn init(
        place: &mut MaybeUninit<Self>,
        store: S,
        segments: Segments,
        restart: fn() -> !,
    ) -> &mut Self {
        const {
            assert!(
                STACK.is_multiple_of(16),
                "a stack is a multiple of 16 bytes"
            )
        };
        let at = place.as_mut_ptr();
        // SAFETY: *Nothing under its feet*: `place` is borrowed mutably, so nothing else uses these
        // bytes. Each field is written in place, because a whole value would first lie on the
        // program's stack. The private stack needs no value.
        unsafe {
            let state = &raw mut (*at).state;
            (&raw mut (*state).store).write(store);
            (&raw mut (*state).segments).write(segments);
            (&raw mut (*state).restart).write(restart);
            (&raw mut (*state).context_flags).write(0);
            (&raw mut (*state).outcome).write(Err(Error::NoImage));
            (&raw mut (*state).restored).write(false);
            place.assume_init_mut()
        }
    }

    /// The store, for use between two checkpoints.
    pub fn store(&mut self) -> &mut S {
        &mut self.state.store
    }

    // INVARIANT "One state": registers, stack and memory of an image are of one instant: interrupts
    // are off, and saving runs on a stack of its own (`capture` in arch.rs).
    // Noticed by: the rig's groups `checkpoint` and, in a handler, `checkpoint-interrupt`; planted
    // there: a register, and the FPU's registers, forgotten.
    /// Saves the program's state: the memory that the store's mode selects, and the registers.
    /// Returns after saving, and again after each [`restore`](Self::restore) of this state. All
    /// variables in the segments then have the values that they had here.
    ///
    /// Interrupts are off while it runs. Both returns leave them as they were before the call.
    ///
    /// **Power loss**: as the store's [`save`](Store::save): the next `restore` returns from this
    /// call or from the checkpoint before it. **Cost**: the store's, and stack for the registers:
    /// 40 bytes on Cortex-M, 112 with an FPU, 64 on RISC-V, 18 on MSP430. **Errors**: the store's.
    /// After [`Error::NotRestored`], [`Error::NotResumable`] and [`Error::InsideSegments`] nothing
    /// was written.
    ///
    /// # Safety
    /// - Nothing else writes to the segments while this runs: no DMA, no other core, and no
    ///   variable of the store or of its medium.
    /// - Peripherals, and registers outside of the frame, are not restored. The program sets up
    ///   those it needs after [`Outcome::Restored`]. On Cortex-M, BASEPRI is not saved and must be
    ///   0 here. On RISC-V the floating-point registers are not saved.
    /// - Memory outside of the segments is not restored. The compiler must not assume its value
    ///   across this call: access it as volatile or atomic, or behind a pointer.
    /// - In a handler on Cortex-M: SVCall is `checkpoint::svcall`, and the interrupted program runs
    ///   on the main stack.
    #[inline(never)]
    pub unsafe fn checkpoint(&mut self) -> Result<Outcome, Error<S::Error>> {
        if !self.state.restored {
            return Err(Error::NotRestored);
        }
        let this = self.prepare()?;
        // SAFETY: *One state*: `top` is the end of the private stack, which is idle now, and the
        // callback uses only the state.
        let value = unsafe { arch::capture(this, Self::top(this), Self::save) };
        // SAFETY: *Nothing under its feet*: `this` is our own `&mut`. It lies in no segment, so it
        // has the same address and content after a restore. The callback that wrote to it has
        // returned.
        unsafe {
            match (
                value,
                (&raw mut (*this).state.outcome).replace(Err(Error::NoImage)),
            ) {
                (RESUMED, Ok(Some(restored))) => Ok(Outcome::Restored(restored)),
                (_, outcome) => outcome.map(|_| Outcome::Taken),
            }
        }
    }

    // INVARIANT "Restore first": no checkpoint in a boot before its `restore`:
    // `Error::NotRestored`.
    // Noticed by: the rig, where a planted checkpoint before it makes the scenario lose progress.
    /// Restores the newest valid checkpoint: [`checkpoint`](Self::checkpoint) returns there, and
    /// this call does not return. It returns only if nothing can be restored, and gives the reason.
    /// The program then starts from its beginning.
    ///
    /// Call it at the start of `main`, before any code that takes a checkpoint may run. An earlier
    /// checkpoint would replace the saved state by that of a program that has just started.
    /// Checkpoints are refused until this was called.
    ///
    /// **Power loss**: as the store's [`load`](Store::load): may be repeated. **Cost**: the
    /// store's. **Errors**: the store's, and [`Error::NotResumable`], [`Error::InsideSegments`].
    /// After a failure that may have written a part of memory it calls the `restart` given to
    /// [`init`](Self::init) instead.
    ///
    /// # Safety
    /// - The segments are those of the program that the store was opened for: same build, same
    ///   addresses.
    /// - The images were taken by `checkpoint`, and the medium returns the bytes that were written
    ///   to it.
    /// - The store saves all memory that the program needs afterwards. Its mode leaves out no part
    ///   of the segments that is in use ([`Stack`](crate::Stack) is for programs without a heap),
    ///   and [`Segments::heap_used`] never returns too little.
    /// - The `restart` given to [`init`](Self::init) uses no variable in the segments. They may
    ///   hold half of a state, which need not be a valid value of any type.
    /// - On Cortex-M it is called in thread mode, and no interrupt handler that uses the segments
    ///   is enabled.
    pub unsafe fn restore(&mut self) -> Error<S::Error> {
        self.state.restored = true;
        let this = match self.prepare() {
            Ok(this) => this,
            Err(e) => return e,
        };
        // SAFETY: *One state*, as in `checkpoint`.
        let _: usize = unsafe { arch::capture(this, Self::top(this), Self::load) };
        // SAFETY: *Nothing under its feet*, as in `checkpoint`. `load` returned, so no byte of a
        // segment was written.
        let outcome = unsafe { (&raw mut (*this).state.outcome).replace(Err(Error::NoImage)) };
        outcome.err().unwrap_or(Error::PartlyRestored)
    }

    /// Checks that this lies in no segment and that the program can be resumed here.
    fn prepare(&mut self) -> Result<*mut Self, Error<S::Error>> {
        let from = (&raw const *self).addr();
        if self.state.segments.overlaps(from, from + size_of::<Self>()) {
            return Err(Error::InsideSegments);
        }
        self.state.context_flags = arch::context_flags().ok_or(Error::NotResumable)?;
        Ok(&raw mut *self)
    }

    /// The end of the private stack.
    fn top(this: *mut Self) -> *mut u8 {
        // SAFETY: *Nothing under its feet*: makes only the address of a field of the value from
        // `prepare`.
        let stack = unsafe { &raw mut (*this).stack };
        stack.cast::<u8>().wrapping_add(STACK)
    }

    /// Runs on the private stack. `frame` is the address of the saved registers.
    unsafe extern "C" fn save(this: *mut Self, frame: usize) -> usize {
        // SAFETY: *Nothing under its feet*: `this` is the caller's own `&mut`, which waits for us.
        // The reference covers the state and no byte of the private stack that we run on.
        let this = unsafe { &mut (*this).state };
        this.outcome = if this.is_frame(frame) {
            // SAFETY: *One state*: interrupts are off and we run on a stack in no segment. The
            // caller of `checkpoint` promises that nothing else writes to the segments. The caller
            // of `Segments::new` promises that they are memory.
            let memory = unsafe { this.segments.memory() };
            let memory = memory.stack_from(frame - this.segments.stack().0);
            let context = frame as u32 | this.context_flags;
            this.store.save(&memory, context).map(|()| None)
        } else {
            Err(Error::NotResumable)
        };
        CAPTURED
    }

    /// Runs on the private stack. Returns if nothing can be restored.
    unsafe extern "C" fn load(this: *mut Self, _frame: usize) -> usize {
        // SAFETY: *Nothing under its feet*, as in `save`.
        let this = unsafe { &mut (*this).state };
        // SAFETY: *Nothing under its feet*: we run on a stack in no segment. After the first
        // written byte no reference to a segment is used: the next call is `resume` or `restart`.
        let mut memory = unsafe { this.segments.memory() };
        let loaded = this.store.load(&mut memory);
        if let Err(Error::PartlyRestored | Error::Medium(_)) = loaded {
            (this.restart)()
        }
        this.outcome = loaded.map(Some);
        let Ok(Some(Restored { context, .. })) = this.outcome else {
            return CAPTURED;
        };
        let frame = context as usize & !(arch::ALIGN - 1);
        if !this.is_frame(frame) {
            // The image is not from `checkpoint`, and memory already holds it.
            (this.restart)()
        }
        // SAFETY: *One state*: the frame and the program's memory are as `capture` left them. The
        // caller of `restore` promises that the image is one of `checkpoint` and holds all that the
        // program needs.
        unsafe { arch::resume::<Self>(frame, context, RESUMED) }
    }
}

impl<S: Store> State<S> {
    /// Whether this address can be that of a frame.
    fn is_frame(&self, frame: usize) -> bool {
        let (start, end) = self.segments.stack();
        frame >= start && frame < end && frame.is_multiple_of(arch::ALIGN)
    }
}
