//! What a heap promises about a power cut.

mod sealed {
    pub trait Sealed {}
}

/// What a heap promises about a power cut: [`JustInTime`] or [`Snapshot`].
pub trait Promise: sealed::Sealed + 'static {
    /// Whether only commits count.
    #[doc(hidden)]
    const SNAPSHOT: bool;
}

/// After a cut, the heap is complete if the last operation before it was a completed persist.
/// Otherwise open reports an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JustInTime {}
impl sealed::Sealed for JustInTime {}
impl Promise for JustInTime {
    const SNAPSHOT: bool = false;
}

/// After any cut, the heap is as of the last completed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {}
impl sealed::Sealed for Snapshot {}
impl Promise for Snapshot {
    const SNAPSHOT: bool = true;
}
