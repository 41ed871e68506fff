//! The layout of a medium's content, and the error if the program expects another one.

use core::fmt;

/// Kind, format version and layout fingerprint of a medium's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layout {
    /// The manager of the content: four bytes, readable in a hex dump.
    pub kind: [u8; 4],
    /// Version of that manager's format.
    pub version: u16,
    /// [Fingerprint](crate::fingerprint) of the user's types.
    pub fingerprint: u64,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" version {} with layout {:016x}",
            self.kind.escape_ascii(),
            self.version,
            self.fingerprint
        )
    }
}

/// The medium holds another layout than the program expects. Nothing was written: migrate or erase
/// the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LayoutMismatch {
    /// The layout on the medium.
    pub stored: Layout,
    /// The layout that the program expects.
    pub expected: Layout,
}

impl fmt::Display for LayoutMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, e) = (&self.stored, &self.expected);
        let differs = if s.kind != e.kind {
            "another library's content"
        } else if s.version != e.version {
            "another version of the format"
        } else {
            "other types in the program, or in another order"
        };
        write!(
            f,
            "the medium holds {s}, the program expects {e}: {differs}"
        )
    }
}
impl core::error::Error for LayoutMismatch {}
