//! Frame headers: two words before each object's bytes.
//!
//! ```text
//! tag   history 11 | pins 5 | object number 16                     number 0: a hole
//! span  link 13 | dirty | in transfer | doomed | free | 0 | length in bytes 14
//!       link: the next frame of the directory chain, in units; of a hole, its size in units
//! ```

use super::Frame;
use crate::policy::History;
use core::ptr::NonNull;

/// Frames begin at multiples of this, and contents are aligned to it.
pub(super) const UNIT: usize = 8;
/// No frame. Also one more than the last unit at which a frame can begin.
pub(super) const NONE: u16 = 0x1FFF;
/// The most units of a buffer that are used.
pub(super) const MOST_UNITS: usize = NONE as usize;
/// The longest content.
pub(crate) const MAX_LEN: usize = 0x3FF8;

// The tag.
const HISTORY: u32 = (1 << PINS_AT) - 1;
const PINS_AT: u32 = 11;
pub(super) const ONE_PIN: u32 = 1 << PINS_AT;
pub(super) const TAG_PINS: u32 = 31 << PINS_AT;
/// Pinned exclusively.
pub(super) const EXCLUSIVE: u32 = TAG_PINS;
const ID_AT: u32 = 16;

// The span.
const LINK: u32 = 0x1FFF;
/// A link shifted left by this is a byte offset, in its lower 16 bits.
pub(super) const LINK_OFFSET: u32 = UNIT.ilog2();
pub(super) const DIRTY: u32 = 1 << 13;
pub(super) const IN_TRANSFER: u32 = 1 << 14;
pub(super) const DOOMED: u32 = 1 << 15;
pub(super) const FREE: u32 = 1 << 16;
const LEN_AT: u32 = 18;

// Pins in a record.
pub(super) const PINS: u16 = 31;
const PINS_DOOMED: u16 = 32;

/// Units of a frame, header included.
pub(super) const fn units(len: usize) -> u16 {
    // No `div_ceil`: the sum cannot overflow.
    ((len + 2 * UNIT - 1) / UNIT) as u16
}

pub(super) fn len(span: u32) -> usize {
    (span >> LEN_AT) as usize
}

pub(super) fn link(span: u32) -> u16 {
    (span & LINK) as u16
}

pub(super) fn is_free(span: u32) -> bool {
    span & FREE != 0
}

pub(super) fn id(tag: u32) -> u16 {
    (tag >> ID_AT) as u16
}

/// Whether this is the tag of an unpinned object of this number: one comparison for both.
pub(super) fn is_unpinned(tag: u32, id: u16) -> bool {
    if cfg!(target_pointer_width = "16") {
        // A 16-bit core shifts 32 bits one by one.
        return tag & !HISTORY == u32::from(id) << ID_AT;
    }
    tag >> PINS_AT == u32::from(id) << (ID_AT - PINS_AT)
}

pub(super) fn history(tag: u32) -> History {
    (tag & HISTORY) as u16
}

pub(super) fn with_history(tag: u32, h: History) -> u32 {
    tag & !HISTORY | u32::from(h)
}

pub(super) fn pins(tag: u32, span: u32) -> u16 {
    (tag >> PINS_AT) as u16 & PINS | if span & DOOMED != 0 { PINS_DOOMED } else { 0 }
}

pub(super) fn pins_valid(pins: u16) -> bool {
    pins & !(PINS | PINS_DOOMED) == 0
}

/// A tag with these pins, as [`pins`] gives them.
pub(super) fn with_pins(tag: u32, pins: u16) -> u32 {
    tag & !TAG_PINS | u32::from(pins & PINS) << PINS_AT
}

/// Whether these pins are those of a doomed object.
pub(super) fn is_doomed(pins: u16) -> bool {
    pins & PINS_DOOMED != 0
}

pub(super) fn with_link(span: u32, link: u16) -> u32 {
    span & !LINK | u32::from(link)
}

/// The tag of an unpinned frame.
pub(super) fn unpinned(id: u16, h: History) -> u32 {
    u32::from(id) << ID_AT | u32::from(h)
}

/// The span of a clean, unpinned frame that is in no chain.
pub(super) fn unlinked(len: usize) -> u32 {
    (len as u32) << LEN_AT | u32::from(NONE)
}

/// Bytes from this frame to the next.
#[inline(never)]
pub(super) fn bytes(span: u32) -> usize {
    if is_free(span) {
        return free_bytes(span);
    }
    (len(span) + 2 * UNIT - 1) & !(UNIT - 1)
}

/// Out of line: holes are rare.
#[cold]
fn free_bytes(span: u32) -> usize {
    usize::from(link(span)) * UNIT
}

/// The same in units.
pub(super) fn step(span: u32) -> u16 {
    (bytes(span) / UNIT) as u16
}

impl Frame {
    /// The header's two words.
    pub(super) fn header(self) -> NonNull<u32> {
        self.0
    }

    pub(super) fn content(self) -> NonNull<u8> {
        // SAFETY: invariant "Frames fill the buffer": the content follows the header.
        unsafe { self.0.byte_add(UNIT) }.cast()
    }

    /// The frame with this content.
    ///
    /// # Safety
    /// There is one.
    pub(super) unsafe fn of(content: NonNull<u8>) -> Frame {
        // SAFETY: invariant "Frames fill the buffer": as the caller vouches: before a content there
        // is its header.
        Frame(unsafe { content.byte_sub(UNIT) }.cast())
    }

    /// The frame that begins so many bytes higher, or the end of all frames.
    pub(super) fn up(self, bytes: usize) -> Frame {
        // Wrapping: the end may be a header's length behind the buffer.
        let up = self.0.as_ptr().wrapping_byte_add(bytes);
        // SAFETY: invariant "Frames fill the buffer": within the buffer, or just behind it. No
        // buffer reaches the end of the address space, so this is not null.
        Frame(unsafe { NonNull::new_unchecked(up) })
    }

    /// Units between a lower frame and this one.
    pub(super) fn units_from(self, below: Frame) -> u16 {
        ((self.0.addr().get() - below.0.addr().get()) / UNIT) as u16
    }
}
