//! Persist and restore, from an interrupt too.

use crate::error::Error;
use core::cell::Cell;
use critical_section::Mutex;

type Call = unsafe fn(*const ()) -> Result<(), Error<()>>;

#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) core: *const (),
    pub(crate) persist: Call,
    pub(crate) restore: Call,
}

// SAFETY: the pointer is used inside a critical section and while its heap is attached; `attach` asks for a medium that may be
// used from another context.
unsafe impl Send for Target {}

/// A medium that an interrupt handler may use: any that is [`Send`].
///
/// A bus that drivers share by a `RefCell` is not: the interrupt may come while another driver has borrowed it, and then the
/// save is refused or panics. Share it by a critical section instead, `embedded_hal_bus::spi::CriticalSectionDevice`, which no interrupt
/// divides; or give the heap's chip a bus of its own (`ExclusiveDevice`).
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
/// The program runs what uses the heap inside [`Heap::attach`](crate::Heap::attach); the handler for failing power calls
/// [`Saver::persist`], and, if the power comes back without a reset, [`Saver::restore`].
pub struct Saver {
    target: Mutex<Cell<Option<Target>>>,
}

impl Default for Saver {
    fn default() -> Self {
        Self::new()
    }
}

impl Saver {
    /// Attached to nothing.
    pub const fn new() -> Self {
        Saver {
            target: Mutex::new(Cell::new(None)),
        }
    }

    /// Attaches, if nothing is attached yet.
    pub(crate) fn put(&self, target: Target) -> bool {
        critical_section::with(|cs| {
            let free = self.target.borrow(cs).get().is_none();
            if free {
                self.target.borrow(cs).set(Some(target));
            }
            free
        })
    }

    pub(crate) fn clear(&self) {
        critical_section::with(|cs| self.target.borrow(cs).set(None))
    }

    fn call(&self, which: fn(Target) -> Call) -> Result<(), Error<()>> {
        critical_section::with(|cs| match self.target.borrow(cs).get() {
            // SAFETY: attached, so the heap is there, and a critical section is what guards it.
            Some(t) => unsafe { which(t)(t.core) },
            None => Err(Error::Detached),
        })
    }

    /// Writes what is changed and held, so that all of it is there when the power comes back. From then on the heap's operations
    /// give [`Error::Suspended`], until the restore.
    ///
    /// May come at any point of any operation; one that is under way begins again after the restore. It runs with interrupts masked,
    /// to its end.
    ///
    /// **Power loss**: before its end, the heap of this run is lost: open gives
    /// [`OpenError::Interrupted`](crate::OpenError::Interrupted). **Cost**: at most
    /// [`Config::worst_case`](crate::Config::worst_case); nothing for what is neither changed nor held.
    /// **Errors**: [`Error::Detached`]; [`Error::Suspended`] when the last persist has had no restore; [`Error::Busy`] when the medium's
    /// driver calls it; [`Error::Medium`], after which it may be repeated.
    ///
    /// # Safety
    /// Called in an interrupt handler of the core that runs the heap's operations. Or from elsewhere while no reference into an object is
    /// used later, and no guard or closure holds an object whose type has padding ([`Persist::PADDED`](nvmem::Persist::PADDED))
    /// to be written: an interrupt copies bytes as the machine has them, padding and what is behind a `&mut` that the
    /// interrupted code uses included; the program itself may not look at those.
    pub unsafe fn persist(&self) -> Result<(), Error<()>> {
        self.call(|t| t.persist)
    }

    /// Brings back what is held, to its addresses, after the RAM buffer may have lost its content. The rest is loaded again when
    /// it is used.
    ///
    /// **Power loss**: the last persist counts, as before; when something is held to be written, until the end of this. **Cost**: reads what is
    /// held; 12 bytes when something is held to be written. **Errors**: [`Error::Detached`];
    /// [`Error::Suspended`] without a persist before; [`Error::Damaged`] and [`Error::Medium`], after which the heap stays suspended and
    /// it may be repeated.
    ///
    /// # Safety
    /// As [`Saver::persist`]; and since then all RAM but the heap's buffer has kept, or got back, its content.
    pub unsafe fn restore(&self) -> Result<(), Error<()>> {
        self.call(|t| t.restore)
    }
}
