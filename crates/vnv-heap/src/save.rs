//! Persist and restore: called by the program, or by an interrupt handler through a [`Saver`].

use crate::Heap;
use crate::config::JustInTime;
use crate::error::Error;
use crate::policy::Policy;
use crate::sections::Core;
use core::cell::Cell;
use critical_section::Mutex;
use nvmem::{Medium, Persist};

type Call = unsafe fn(*const ()) -> Result<(), Error<()>>;

#[derive(Clone, Copy)]
struct Target {
    core: *const (),
    persist: Call,
    restore: Call,
}

// SAFETY: invariant "Attached is alive": the pointer is used inside a critical section, while its
// heap is attached, and on the core of the heap, as the callers of `persist` and `restore` vouch.
// `attach` requires a medium that may be used from another context.
unsafe impl Send for Target {}

/// A medium that an interrupt handler may use: any that is [`Send`].
///
/// A bus that drivers share through a `RefCell` is not: the interrupt may come while another driver
/// has borrowed it. The save would then be refused or panic. Share the bus through a critical
/// section instead, `embedded_hal_bus::spi::CriticalSectionDevice`, or give the chip a bus of its
/// own (`ExclusiveDevice`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used in an interrupt, where a saver uses it",
    label = "the interrupt may come while its bus is borrowed",
    note = "share the bus by a critical section: `embedded_hal_bus::spi::CriticalSectionDevice` instead of `RefCellDevice`; or give the chip a bus of its own: `ExclusiveDevice`"
)]
pub trait Interruptible: Send {}
#[diagnostic::do_not_recommend]
impl<S: Send> Interruptible for S {}

/// Where an interrupt handler finds a heap: `static POWER_LOW: Saver = Saver::new();`.
///
/// The program runs the code that uses the heap inside [`Heap::attach`](crate::Heap::attach). The
/// power-low interrupt calls [`Saver::persist`]. If the power returns without a reset, it calls
/// [`Saver::restore`].
///
/// ```ignore
/// static POWER_LOW: Saver = Saver::new();
///
/// heap.attach(&POWER_LOW, || main_loop(&heap))?;
///
/// fn comparator_interrupt() {
///     // SAFETY: this is an interrupt handler on the core that uses the heap.
///     let saved = unsafe { POWER_LOW.persist() };    // if not, the next open says `Interrupted`
///     wait_until_the_supply_is_back_or_gone();
///     // SAFETY: as above, and all RAM but the heap's buffer has kept its content.
///     if saved.is_err() || unsafe { POWER_LOW.restore() }.is_err() {
///         reset()    // the heap's buffer may have lost its content: no guard may be used again
///     }
/// }    // the supply came back: the operation continues
/// ```
pub struct Saver {
    target: Mutex<Cell<Option<Target>>>,
}

impl Default for Saver {
    fn default() -> Self {
        Self::new()
    }
}

impl Saver {
    /// A saver without a heap.
    pub const fn new() -> Self {
        Saver {
            target: Mutex::new(Cell::new(None)),
        }
    }

    /// Attaches a heap. False when one is attached already.
    fn put(&self, target: Target) -> bool {
        critical_section::with(|cs| {
            let free = self.target.borrow(cs).get().is_none();
            if free {
                self.target.borrow(cs).set(Some(target));
            }
            free
        })
    }

    fn clear(&self) {
        critical_section::with(|cs| self.target.borrow(cs).set(None))
    }

    fn call(&self, which: fn(Target) -> Call) -> Result<(), Error<()>> {
        critical_section::with(|cs| match self.target.borrow(cs).get() {
            // SAFETY: invariant "Attached is alive": the heap is attached, so it is alive, and both
            // functions are for its type. It cannot be detached during this critical section.
            Some(t) => unsafe { which(t)(t.core) },
            None => Err(Error::Detached),
        })
    }

    /// Writes back everything that has changed, and records what is pinned. From then on operations
    /// of the heap return [`Error::Suspended`], until the restore.
    ///
    /// May come at any point of any operation; an interrupted operation starts over after the
    /// restore. It runs to its end with interrupts masked.
    ///
    /// **Power loss**: before its end, the heap of this run is lost: open returns
    /// [`OpenError::Interrupted`](crate::OpenError::Interrupted). **Cost**: at most
    /// [`Config::worst_case`](crate::Config::worst_case). Objects that are neither changed nor
    /// pinned cost nothing. **Errors**: [`Error::Detached`]; [`Error::Suspended`] when the last
    /// persist has had no restore; [`Error::Busy`] when the medium's driver calls it;
    /// [`Error::Medium`], after which it may be repeated.
    ///
    /// # Safety
    /// Call it from an interrupt handler on the core that runs the heap's operations. A call from
    /// elsewhere needs two conditions. First, no reference into an object is used afterwards.
    /// Second, no guard or closure holds an object for writing whose type has padding
    /// ([`Persist::PADDED`]). Reason: the save copies all bytes of an
    /// object. An interrupt copies them as the machine has them, including padding and bytes behind
    /// a live `&mut`. The program itself may not read those.
    pub unsafe fn persist(&self) -> Result<(), Error<()>> {
        self.call(|t| t.persist)
    }

    /// Pages pinned objects in again, at their addresses. The RAM buffer may have lost its content.
    /// Other objects are paged in when they are used.
    ///
    /// **Power loss**: the last persist counts. If an object is pinned for writing, it counts until
    /// this returns. **Cost**: reads the pinned objects, and writes 12 bytes if one is pinned for
    /// writing. **Errors**: [`Error::Detached`]; [`Error::Suspended`] without a persist before;
    /// [`Error::Damaged`] and [`Error::Medium`], after which the heap stays suspended and this may
    /// be repeated.
    ///
    /// # Safety
    /// As [`Saver::persist`]. Since then all RAM except the heap's buffer has kept, or got back,
    /// its content, and nobody has written through a guard: what was saved comes back. If the
    /// buffer has lost its content, no reference into an object is used until this has succeeded.
    /// So after an error the handler calls it again or resets; it does not return to the program.
    pub unsafe fn restore(&self) -> Result<(), Error<()>> {
        self.call(|t| t.restore)
    }
}

impl<R: Persist, S: Medium, Pol: Policy, B> Heap<'_, R, S, JustInTime, Pol, B> {
    /// Writes back everything that has changed. Until [`Heap::restore`], operations return
    /// [`Error::Suspended`]. For use in an interrupt, see [`Heap::attach`].
    ///
    /// **Power loss**: before its end, the next open returns
    /// [`OpenError::Interrupted`](crate::OpenError::Interrupted). **Cost**: at most
    /// [`Config::worst_case`](crate::Config::worst_case). **Errors**: [`Error::Medium`], after
    /// which the heap continues as before; [`Error::Suspended`]; [`Error::Busy`] when a guard that
    /// wrote an object with padding was leaked.
    pub fn persist(&mut self) -> Result<(), Error<S::Error>> {
        self.core.with_medium_error(self.core.no_padding_leaked())?;
        self.core.persist()
    }

    /// Continues after a persist. The RAM buffer may have lost its content.
    ///
    /// **Power loss**: the persist counts. If a leaked guard pins an object for writing, it counts
    /// until this returns. **Cost**: reads the objects that leaked guards pin. **Errors**:
    /// [`Error::Suspended`] without a persist before; [`Error::Damaged`] and [`Error::Medium`],
    /// after which it may be repeated.
    pub fn restore(&mut self) -> Result<(), Error<S::Error>> {
        self.core.restore()
    }

    // INVARIANT "Attached is alive": a saver leads to a heap that is borrowed until it is detached:
    // `attach` detaches even when it unwinds. What the test hook of instrument.rs borrows lives
    // until the hook is removed.
    // Noticed by: tests/suite/interrupt.rs.
    /// Runs `f` with the heap attached to `saver`, where an interrupt handler finds it. Detaches at
    /// the end, also when `f` unwinds.
    ///
    /// The medium is [`Interruptible`], because the handler uses it too. **Errors**:
    /// [`Error::Busy`] when a heap is attached already; `f` did not run then.
    pub fn attach<O>(&self, saver: &Saver, f: impl FnOnce() -> O) -> Result<O, Error<S::Error>>
    where
        S: Interruptible,
    {
        struct Detach<'a>(&'a Saver);
        impl Drop for Detach<'_> {
            fn drop(&mut self) {
                self.0.clear();
            }
        }
        let target = Target {
            core: (&raw const self.core).cast(),
            persist: persist_at::<S, Pol>,
            restore: restore_at::<S, Pol>,
        };
        if !saver.put(target) {
            return Err(Error::Busy);
        }
        let _detach = Detach(saver);
        Ok(f())
    }
}

/// # Safety
/// `core` points to a core of this type.
unsafe fn persist_at<S: Medium, Pol: Policy>(core: *const ()) -> Result<(), Error<()>> {
    // SAFETY: invariant "Attached is alive": as the caller vouches.
    let core = unsafe { &*core.cast::<Core<S, JustInTime, Pol>>() };
    core.persist().map_err(Error::erase)
}

/// # Safety
/// `core` points to a core of this type.
unsafe fn restore_at<S: Medium, Pol: Policy>(core: *const ()) -> Result<(), Error<()>> {
    // SAFETY: invariant "Attached is alive": as the caller vouches.
    let core = unsafe { &*core.cast::<Core<S, JustInTime, Pol>>() };
    core.restore().map_err(Error::erase)
}
