//! Errors.

use nv_replay::nvmem::LayoutMismatch;
use nv_replay::pmem_tx;

/// Why contexts could not be opened. Nothing was written, unless the region was blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is too short.
    TooSmall {
        /// A length that is enough.
        needed: usize,
    },
    /// The region holds something else.
    Foreign,
    /// The region holds contexts of other types, or of another version of the format.
    Layout(LayoutMismatch),
    /// The region was formatted with units or sequence numbers of another width.
    Parameters,
    /// The superblock is damaged. No power cut causes this.
    Superblock,
    /// An item is damaged: its bytes are not what this crate writes, or not a value of the
    /// context's type. No power cut causes this.
    Damaged {
        /// Which, in the order of the types.
        item: usize,
    },
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::TooSmall { needed } => write!(f, "the region needs {needed} bytes"),
            OpenError::Foreign => f.write_str("the region holds something else"),
            OpenError::Layout(e) => write!(f, "{e}"),
            OpenError::Parameters => {
                f.write_str("the region was formatted for other units or numbers")
            }
            OpenError::Superblock => f.write_str("the superblock is damaged"),
            OpenError::Damaged { item } => write!(f, "device context {item} is damaged"),
        }
    }
}
impl core::error::Error for OpenError {}

/// Why a call failed. After [`CallError::Driver`] the driver was taken out: it is built from its
/// committed context again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CallError<E> {
    /// The driver could not be built. If a change was to be applied, that change is committed.
    Restore(E),
    /// The call itself has failed. Its changes to the context are dropped.
    Driver(E),
    /// A call of this device is under way.
    Busy,
    /// The step is one of another [`Set`](crate::Set), or [`Devices::list`](crate::Devices::list)
    /// leaves this device out. Nothing was done.
    Forgotten,
    /// The step has made another call of this device that is to happen exactly once. Nothing was
    /// done.
    SecondOnce,
}

impl<E: core::fmt::Debug> core::fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CallError::Restore(e) => write!(f, "the device could not be restored: {e:?}"),
            CallError::Driver(e) => write!(f, "the device failed: {e:?}"),
            CallError::Busy => f.write_str("a call of this device is under way"),
            CallError::Forgotten => f.write_str("the device is not in the set of this step"),
            CallError::SecondOnce => {
                f.write_str("a second call in a step that is to happen exactly once")
            }
        }
    }
}
impl<E: core::fmt::Debug> core::error::Error for CallError<E> {}

/// The codes with which a failed call aborts a step, when `?` has converted its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum Code {
    /// [`CallError::Restore`].
    Restore = 0xDE01,
    /// [`CallError::Driver`].
    Driver = 0xDE02,
    /// [`CallError::Busy`].
    Busy = 0xDE03,
    /// [`CallError::Forgotten`]. Also if a step has asked events that are not in its set, and if
    /// the list of devices leaves out one that the step has used.
    Forgotten = 0xDE05,
    /// [`CallError::SecondOnce`].
    SecondOnce = 0xDE06,
}

impl<E> From<CallError<E>> for pmem_tx::Error {
    /// Aborts the step with a [`Code`].
    fn from(e: CallError<E>) -> Self {
        let code = match e {
            CallError::Restore(_) => Code::Restore,
            CallError::Driver(_) => Code::Driver,
            CallError::Busy => Code::Busy,
            CallError::Forgotten => Code::Forgotten,
            CallError::SecondOnce => Code::SecondOnce,
        };
        pmem_tx::Error::Aborted(code as u16)
    }
}
