//! Calls on a stack of their own, so that a checkpoint of the program never holds half a call.
//!
//! ```text
//!  program's stack (in images)          call stack (in no image)
//!    closure, room for its result
//!    run: sp <- top  ------------------>  the call: driver, bus, the context's commit
//!                                         a checkpoint here is refused: its registers lie on a
//!                                         stack that is in no image
//!    sp as before    <------------------  returns
//!  ~~~~ power lost in the call ~~~~
//!    restore: the last checkpoint is one from before the call, or after one that has returned
//!    the program comes to the call again, and makes it as a whole
//! ```
//!
//! Function and arguments of a call are values on the program's stack, so an image from before the
//! call has them. Its locals, the driver's and the bus's are on a stack that no image has, so none
//! of them comes back half done.
//!
//! Calls in a call run on the same stack: the outer one has the [`CallStack`] by `&mut`. So its
//! context is saved where the outermost call returns, and no checkpoint comes between.

use crate::stack_switch::on_stack;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};

/// The bytes of a [`CallStack`]. They belong outside of what a checkpoint saves: into a static in a
/// section of its own, `.uninit` with `cortex-m-rt` and `riscv-rt`.
///
/// Interrupts that come in a call use it, too, where they use the stack of what they interrupt. If
/// it is too short, what lies below it is overwritten, as with any other stack.
#[repr(C)]
// As the calling conventions require. Not more: LLVM does not keep a larger alignment on MSP430.
#[cfg_attr(target_arch = "msp430", repr(align(2)))]
#[cfg_attr(not(target_arch = "msp430"), repr(align(16)))]
pub struct StackBytes<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

impl<const BYTES: usize> StackBytes<BYTES> {
    /// Bytes without a value.
    pub const NEW: Self = {
        assert!(
            BYTES.is_multiple_of(16),
            "a stack is a multiple of 16 bytes"
        );
        StackBytes(MaybeUninit::uninit())
    };
}

/// A stack for calls of devices, in a program with checkpoints.
///
/// On Cortex-M, RISC-V (RV32) and MSP430. On other machines, such as a host, calls run on the stack
/// of the program.
///
/// ```
/// # use core::convert::Infallible;
/// use nv_device::nvmem::Model;
/// use nv_device::{Apply, CallError, CallStack, Device, Restore, StackBytes};
/// # struct Lamp;
/// # impl Restore for Lamp {
/// #     type Context = u8;
/// #     type Parts = ();
/// #     type Error = Infallible;
/// #     fn restore(_: &mut (), _: &u8) -> Result<Self, Infallible> { Ok(Lamp) }
/// #     fn apply(&mut self, _: &u8) -> Result<Apply, Infallible> { Ok(Apply::Done) }
/// # }
///
/// fn blink<M: Model>(
///     calls: &mut CallStack,
///     lamp: &mut Device<'_, Lamp, M>,
/// ) -> Result<(), CallError<Infallible>> {
///     calls.run(|| lamp.change((), |lit, ()| *lit ^= 1))
/// }
/// # use nv_device::{Committed, Own, open};
/// # use nv_device::nvmem::{InOrder32, Region};
/// # let mut fram = [const { core::mem::MaybeUninit::new(0u64) }; 32];
/// # let region = Region::<InOrder32>::new(&mut fram);
/// # let (lit,) = open::<(Own<u8>,), _>(region, Committed::NOTHING, (0,))?;
/// # let mut lamp = Device::<Lamp, _>::new(lit, ());
///
/// // On a device, a static: #[unsafe(link_section = ".uninit.calls")]
/// let mut bytes = StackBytes::<512>::NEW;
/// let mut calls = CallStack::new(&mut bytes);
/// blink(&mut calls, &mut lamp)?;
/// # assert_eq!(*lamp.context(), 1);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct CallStack<'s> {
    end: *mut u8,
    _bytes: PhantomData<&'s mut u8>,
}

/// A call, and the room for its result.
struct Job<F, O> {
    call: ManuallyDrop<F>,
    result: MaybeUninit<O>,
}

impl<'s> CallStack<'s> {
    /// A stack in these bytes.
    pub fn new<const BYTES: usize>(bytes: &'s mut StackBytes<BYTES>) -> Self {
        let start = bytes.0.as_mut_ptr().cast::<u8>();
        CallStack {
            end: start.wrapping_add(BYTES),
            _bytes: PhantomData,
        }
    }

    /// Runs `call` on this stack: a call of a device, or several that belong together, with what
    /// they do to contexts.
    ///
    /// In it, `checkpoint` refuses to take a checkpoint (`NotResumable`, nothing is written), in an
    /// interrupt's handler, too. If power-low arrives during a call, its handler leaves the
    /// checkpoint to the program, which takes one where this has returned. If the energy does not
    /// suffice, the next boot restores the checkpoint before it.
    ///
    /// **Power loss**: the program comes to the call again, from its last checkpoint, and makes it
    /// as a whole. **Cost**: the change of the stack, some 25 cycles of an MSP430; no store.
    ///
    /// **Panics**: if `call` does. A host may catch that.
    #[inline(always)]
    pub fn run<O>(&mut self, call: impl FnOnce() -> O) -> O {
        let mut job = Job {
            call: ManuallyDrop::new(call),
            result: MaybeUninit::uninit(),
        };
        run_on(self.end, &mut job);
        // SAFETY: invariant "A stack for one call": `run_on` has run the call, which has returned.
        unsafe { job.result.assume_init() }
    }
}

// INVARIANT "A stack for one call": a call stack is entered by one call at a time, which has
// returned when its `run` does, and the job that it gets is there until then. `CallStack::run`
// takes `&mut self`; `on_stack` (stack_switch.rs) returns when the job has.
// Noticed by: `device-calls/restored` in the rig, at every instruction.

/// Runs a job on the stack that ends here.
#[inline(always)]
fn run_on<F: FnOnce() -> O, O>(end: *mut u8, job: &mut Job<F, O>) {
    // SAFETY: invariant "A stack for one call": the stack is borrowed mutably by its `CallStack`,
    // whose `run` is not entered twice, so nobody else is on it. `do_job` gets the job that it is
    // made for, and it is there until the call has returned.
    unsafe { on_stack((&raw mut *job).cast(), do_job::<F, O>, end) }
}

/// Runs a job, on the other stack.
///
/// # Safety
/// `job` is a `Job<F, O>` that was not run.
unsafe extern "C-unwind" fn do_job<F: FnOnce() -> O, O>(job: *mut ()) {
    // SAFETY: as the caller promises; nobody else uses the job while it waits for this.
    let job = unsafe { &mut *job.cast::<Job<F, O>>() };
    // SAFETY: it was not taken before.
    let call = unsafe { ManuallyDrop::take(&mut job.call) };
    job.result.write(call());
}
