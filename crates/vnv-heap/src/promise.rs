//! What a heap promises about a power cut.

mod sealed {
    pub trait Sealed {}
}

/// What a heap promises about a power cut: [`JustInTime`] or [`Snapshot`].
pub trait Promise: sealed::Sealed + 'static {
    /// Whether a commit is what counts.
    #[doc(hidden)]
    const SNAPSHOT: bool;
}

/// All of it is there again if the last thing before the cut was a completed persist; otherwise open says that it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JustInTime {}
impl sealed::Sealed for JustInTime {}
impl Promise for JustInTime {
    const SNAPSHOT: bool = false;
}

/// After any cut the heap is as of the last completed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {}
impl sealed::Sealed for Snapshot {}
impl Promise for Snapshot {
    const SNAPSHOT: bool = true;
}
