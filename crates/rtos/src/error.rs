//! Errors, and the codes with which a kernel call ends a step.

use nv_replay::nvmem::LayoutMismatch;
use nv_replay::nvmem::tagged::TagError;

/// Why a system cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is too short for the kernel's objects.
    TooSmall,
    /// The region holds something else. Nothing was written.
    Foreign,
    /// The kernel's superblock is damaged; no power cut can cause this. Nothing was written.
    Damaged,
    /// Another system, or other objects, threads or priorities.
    Layout(LayoutMismatch),
    /// A kernel object's word is damaged, or the sequence numbers are too wide for it: at most 13
    /// bits with units of 32 bits, and 12 with units of 16 bits.
    Object(TagError),
    /// The threads' tables or their pool.
    Threads(nv_replay::OpenError),
}

impl From<TagError> for OpenError {
    fn from(e: TagError) -> Self {
        OpenError::Object(e)
    }
}
impl From<LayoutMismatch> for OpenError {
    fn from(e: LayoutMismatch) -> Self {
        OpenError::Layout(e)
    }
}
impl From<nv_replay::OpenError> for OpenError {
    fn from(e: nv_replay::OpenError) -> Self {
        OpenError::Threads(e)
    }
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::TooSmall => f.write_str("the region is too short for the kernel's objects"),
            OpenError::Foreign => f.write_str("the region holds other content"),
            OpenError::Damaged => f.write_str("the kernel's superblock is damaged"),
            OpenError::Layout(e) => write!(f, "the region holds another system: {e}"),
            OpenError::Object(e) => write!(f, "the kernel's objects: {e}"),
            OpenError::Threads(e) => write!(f, "the threads: {e}"),
        }
    }
}
impl core::error::Error for OpenError {}

/// A thread has overflowed its stack. What it has committed counts; the machine has stopped before
/// it committed more. The next boot goes on there; it needs a larger stack for this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StackOverflow {
    /// The thread's number, in the order of `system!`.
    pub thread: usize,
}

impl core::fmt::Display for StackOverflow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "thread {} has overflowed its stack", self.thread)
    }
}
impl core::error::Error for StackOverflow {}

/// The codes with which a kernel call ends a step: [`Error::Aborted`](crate::Error::Aborted). A
/// program's own codes are below `0xff00`.
pub mod code {
    /// A semaphore is at its maximum.
    pub const FULL: u16 = 0xff00;
    /// A step has more than [`OPERATIONS_MAX`](crate::OPERATIONS_MAX) kernel operations on
    /// different words.
    pub const TOO_MANY: u16 = 0xff01;
    /// The thread has [`LOCKS_MAX`](crate::LOCKS_MAX) locks already.
    pub const LOCKS: u16 = 0xff03;
    /// A kernel word or a message on the medium is damaged.
    pub const DAMAGED: u16 = 0xff04;
    /// The thread that was joined has ended with an error.
    pub const FAILED: u16 = 0xff05;
    /// The thread that was joined is [parked](crate::Kernel::parked).
    pub const PARKED: u16 = 0xff06;
    /// The thread that was joined was [aborted](crate::ThreadId::abort).
    pub const ABORTED: u16 = 0xff07;
    /// A thread that holds a mutex, or runs, cannot be aborted; a mutex that a thread has cannot be
    /// [deleted](crate::Places::delete); no priority is above 252.
    pub const REFUSED: u16 = 0xff08;
    /// The object was [deleted](crate::Places::delete), or was never made.
    pub const DELETED: u16 = 0xff09;
    /// All [places](crate::Places) for such objects are in use.
    pub const NO_PLACE: u16 = 0xff0a;
    /// A thread of a reserved place has no steps that are
    /// [joined](crate::Thread::step_with) with something.
    pub const NOT_OF_THREAD: u16 = 0xff0b;
}
