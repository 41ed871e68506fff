//! A program that goes on in the middle: registers, stack and memory in one state, and a call that returns twice.

use crate::{Error, Memory, Restored, Store};
use core::mem::MaybeUninit;

#[cfg_attr(target_arch = "arm", path = "arch/arm.rs")]
#[cfg_attr(target_arch = "riscv32", path = "arch/riscv.rs")]
#[cfg_attr(target_arch = "msp430", path = "arch/msp430.rs")]
mod arch;

#[cfg(target_arch = "arm")]
pub use arch::svcall;

/// Where a program's memory lies: its statics, its heap, and its stack. See [`segments!`](crate::segments).
#[derive(Debug, Clone, Copy)]
pub struct Segments {
    parts: [(*mut u8, *mut u8); 3],
    heap_used: Option<fn() -> usize>,
}

impl Segments {
    /// Segments by their addresses, each from the start to the byte after the end.
    ///
    /// # Safety
    /// - Each range is RAM of one piece that may be read at any time, and the three do not overlap.
    /// - The stack is the one that the program runs on when it takes a checkpoint, the whole of it up to where it begins.
    /// - The statics are all variables of the program that it needs after a restore, and none that the store or its medium uses.
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

    /// The same with a function that says how many bytes of the heap are in use, from its start; all of it unless told. It is called with
    /// interrupts off.
    #[must_use]
    pub const fn heap_used(mut self, bytes: fn() -> usize) -> Self {
        self.heap_used = Some(bytes);
        self
    }

    fn stack(&self) -> (usize, usize) {
        let (start, end) = self.parts[2];
        (start.addr(), end.addr())
    }

    /// Whether any of these addresses lies in what images hold.
    fn meet(&self, from: usize, to: usize) -> bool {
        let apart = |(start, end): &(*mut u8, *mut u8)| to <= start.addr() || end.addr() <= from;
        !self.parts.iter().all(apart)
    }

    /// The memory that they are, all of the stack in use.
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

/// How [`Checkpointer::checkpoint`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// The state was kept, and the program goes on.
    Taken,
    /// Power went since, and [`Checkpointer::restore`] has brought the program back to here.
    Restored(Restored),
}

/// Aligned as calling conventions ask for; not more, which LLVM does not keep for a variable on MSP430.
#[repr(C)]
#[cfg_attr(target_arch = "msp430", repr(align(2)))]
#[cfg_attr(not(target_arch = "msp430"), repr(align(16)))]
struct Stack<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

/// Takes checkpoints of the running program and brings it back to them: memory, stack and registers.
///
/// It lies in memory that no image holds, and saves and loads on a stack of `STACK` bytes in itself.
pub struct Checkpointer<S: Store, const STACK: usize = 2048> {
    /// First, so that what overflows it does not touch the rest.
    stack: Stack<STACK>,
    state: State<S>,
}

/// What runs on the private stack refers to this alone, never to the stack that it runs on.
struct State<S: Store> {
    store: S,
    segments: Segments,
    restart: fn() -> !,
    /// What the context says beside the frame's address.
    place: u32,
    outcome: Result<Option<Restored>, Error<S::Error>>,
    /// `restore` was called in this boot.
    restored: bool,
}

/// What the callback of a capture returns, or a restore in its place.
const HERE: usize = 0;
const BACK: usize = 1;

impl<S: Store, const STACK: usize> Checkpointer<S, STACK> {
    /// Makes one in a place that no image holds: a static in a section of its own, `.uninit` with `cortex-m-rt` and `riscv-rt`.
    ///
    /// `restart` is called when a restore has broken off half-way and there is nothing left to return to: it resets the
    /// machine, on the stack in here, with statics of which nothing is known.
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
        // SAFETY: *Nothing under its feet*: `place` is borrowed, so nobody else has these bytes. Each field is written in its place, and the
        // stack needs no value. Not as a whole: it would be on the program's stack first.
        unsafe {
            let state = &raw mut (*at).state;
            (&raw mut (*state).store).write(store);
            (&raw mut (*state).segments).write(segments);
            (&raw mut (*state).restart).write(restart);
            (&raw mut (*state).place).write(0);
            (&raw mut (*state).outcome).write(Err(Error::NoImage));
            (&raw mut (*state).restored).write(false);
            place.assume_init_mut()
        }
    }

    /// The store. Between two checkpoints only.
    pub fn store(&mut self) -> &mut S {
        &mut self.state.store
    }

    /// Keeps the state of the program: what the store's mode says of memory, and the registers. Returns twice: after that, and after each
    /// [`restore`](Self::restore) that finds this state. All variables are then what they were, except those that lie outside of
    /// the segments.
    ///
    /// Interrupts are off while it runs, and after it what they were before it, both times.
    ///
    /// **Power loss**: as the store's [`save`](Store::save); a program is brought back to this call or to the one before. **Cost**: the
    /// store's, and 40 bytes of stack on Cortex-M, 112 with an FPU, 64 on RISC-V, 18 on MSP430. **Errors**: those of the store; [`Error::NotRestored`], [`Error::Place`],
    /// [`Error::Inside`], and nothing was written.
    ///
    /// # Safety
    /// - Nobody writes to the segments while this runs: no DMA, no other core, nor the store and its medium to variables of their own.
    /// - Peripherals, and registers that the frame does not hold, are not brought back: what the program needs of them it sets up after
    ///   [`Returned::Restored`]. On Cortex-M this is BASEPRI, which must be 0 here; on RISC-V the floating-point registers.
    /// - What lies outside of the segments goes on as it is: the compiler must not know its value across this call (volatile, atomic, or behind a pointer).
    /// - On Cortex-M in a handler: SVCall is `checkpoint::svcall`, and the program that was interrupted runs on the main stack.
    #[inline(never)]
    pub unsafe fn checkpoint(&mut self) -> Result<Returned, Error<S::Error>> {
        if !self.state.restored {
            return Err(Error::NotRestored);
        }
        let this = self.ready()?;
        // SAFETY: *One state*: `top` is the end of the private stack, on which nothing runs now, and the callback uses the state only.
        let value = unsafe { arch::capture(this, Self::top(this), Self::save) };
        // SAFETY: *Nothing under its feet*: `this` is our own `&mut`, in no segment, and so at the same place after a restore. The
        // callback has written to it and is gone.
        unsafe {
            match (
                value,
                (&raw mut (*this).state.outcome).replace(Err(Error::NoImage)),
            ) {
                (BACK, Ok(Some(restored))) => Ok(Returned::Restored(restored)),
                (_, outcome) => outcome.map(|_| Returned::Taken),
            }
        }
    }

    /// Brings the program back to where the state that counts was taken: [`checkpoint`](Self::checkpoint) returns there, and this does not
    /// return. It does when there is nothing to return to, and says why; then the program begins.
    ///
    /// To be called at the start of `main`, before anything that takes a checkpoint is allowed to: an interrupt that takes one before this would
    /// replace the state with one of a program that has just begun. Checkpoints are refused until it was called.
    ///
    /// **Power loss**: as the store's [`load`](Store::load): may be repeated. **Cost**: the store's. **Errors**: those of the store, and [`Error::Place`],
    /// [`Error::Inside`]; what may have left half of a state calls the function given to [`init`](Self::init).
    ///
    /// # Safety
    /// - The segments are those of the program that the store was opened for: same build, same addresses.
    /// - The images were taken by `checkpoint`, and the store's medium gives back what was written to it.
    /// - What the store keeps is all that the program needs afterwards: its mode leaves out no part of the segments that is in use
    ///   ([`Stack`](crate::Stack) is for programs without a heap), and [`Segments::heap_used`] never says too little.
    /// - The function given to [`init`](Self::init) as `restart` uses no variable in the segments: they may hold half of a state, which
    ///   need not be a value of any type.
    /// - On Cortex-M in thread mode, and no interrupt handler that uses the segments is enabled.
    pub unsafe fn restore(&mut self) -> Error<S::Error> {
        self.state.restored = true;
        let this = match self.ready() {
            Ok(this) => this,
            Err(e) => return e,
        };
        // SAFETY: *One state*, as in `checkpoint`.
        let _: usize = unsafe { arch::capture(this, Self::top(this), Self::load) };
        // SAFETY: *Nothing under its feet*, as in `checkpoint`. It came back, so no byte of a segment was written.
        let outcome = unsafe { (&raw mut (*this).state.outcome).replace(Err(Error::NoImage)) };
        outcome.err().unwrap_or(Error::Spoilt)
    }

    /// Whether all is where it should be.
    fn ready(&mut self) -> Result<*mut Self, Error<S::Error>> {
        let from = (&raw const *self).addr();
        if self.state.segments.meet(from, from + size_of::<Self>()) {
            return Err(Error::Inside);
        }
        self.state.place = arch::place().ok_or(Error::Place)?;
        Ok(&raw mut *self)
    }

    /// The end of the private stack.
    fn top(this: *mut Self) -> *mut u8 {
        // SAFETY: *Nothing under its feet*: only the address of a field of what `ready` has given is made.
        let stack = unsafe { &raw mut (*this).stack };
        stack.cast::<u8>().wrapping_add(STACK)
    }

    /// On the private stack, with the registers in a frame.
    unsafe extern "C" fn save(this: *mut Self, frame: usize) -> usize {
        // SAFETY: *Nothing under its feet*: `this` is the caller's own `&mut`, which waits for us. The reference covers the state and
        // no byte of the stack that we run on.
        let this = unsafe { &mut (*this).state };
        this.outcome = if this.holds(frame) {
            // SAFETY: *One state*: interrupts are off and we run on a stack in no segment; that nobody else writes to the segments is
            // the promise of `checkpoint`'s caller, and that they are memory that of `Segments::new`'s.
            let memory = unsafe { this.segments.memory() };
            let memory = memory.stack_from(frame - this.segments.stack().0);
            let context = frame as u32 | this.place;
            this.store.save(&memory, context).map(|()| None)
        } else {
            Err(Error::Place)
        };
        HERE
    }

    /// On the private stack. Returns when there is nothing to return to.
    unsafe extern "C" fn load(this: *mut Self, _frame: usize) -> usize {
        // SAFETY: *Nothing under its feet*, as in `save`.
        let this = unsafe { &mut (*this).state };
        // SAFETY: *Nothing under its feet*: we run on a stack in no segment, and from the first byte that is written on no reference to
        // a segment is used: what follows is `resume` or `restart`.
        let mut memory = unsafe { this.segments.memory() };
        let loaded = this.store.load(&mut memory);
        if let Err(Error::Spoilt | Error::Medium(_)) = loaded {
            (this.restart)()
        }
        this.outcome = loaded.map(Some);
        let Ok(Some(Restored { context, .. })) = this.outcome else {
            return HERE;
        };
        let frame = context as usize & !(arch::ALIGN - 1);
        if !this.holds(frame) {
            // Somebody else's image, and memory is what it holds.
            (this.restart)()
        }
        // SAFETY: *One state*: the frame is as `capture` has written it and the program's memory is as it was then, as `restore`'s caller
        // promises that the image is one of `checkpoint`'s and holds what the program needs.
        unsafe { arch::resume::<Self>(frame, context, BACK) }
    }
}

impl<S: Store> State<S> {
    /// Whether a frame could be there.
    fn holds(&self, frame: usize) -> bool {
        let (start, end) = self.segments.stack();
        frame >= start && frame < end && frame.is_multiple_of(arch::ALIGN)
    }
}
