//! Headers: two words before each content.
//!
//! ```text
//! tag   id 16 | pins 5 | history 11            id 0: free
//! span  link 13 | dirty | held | doomed | free | 0 | length in bytes 14       free: the link is its units
//! ```

use super::Cache;
use crate::policy::History;

/// The unit of places and sizes; what contents are aligned to.
pub(super) const UNIT: usize = 8;
/// No block. Also one more than the last unit at which a block can begin.
pub(super) const NONE: u16 = 0x1FFF;
/// How many units are used of a buffer, at most.
pub(super) const MOST_UNITS: usize = NONE as usize;
/// The longest content.
pub(crate) const MAX_LEN: usize = 0x3FF8;

// The tag.
const PINS_AT: u32 = 16;
pub(super) const ONE_PIN: u32 = 1 << PINS_AT;
pub(super) const TAG_PINS: u32 = 31 << PINS_AT;
/// Pinned by one that excludes all others.
pub(super) const ALONE: u32 = TAG_PINS;
const HISTORY_AT: u32 = 21;

// The span.
const LINK: u32 = 0x1FFF;
/// Shifted so far, and what is above it off 16 bits, a link is in bytes.
pub(super) const LINK_OFFSET: u32 = UNIT.ilog2();
pub(super) const DIRTY: u32 = 1 << 13;
pub(super) const HELD: u32 = 1 << 14;
pub(super) const DOOMED: u32 = 1 << 15;
pub(super) const FREE: u32 = 1 << 16;
const LEN_AT: u32 = 18;

// Pins in a record.
pub(super) const PINS: u16 = 31;
const PINS_DOOMED: u16 = 32;

/// Units of a block, header included.
#[inline(always)]
pub(super) fn units(len: usize) -> u16 {
    (len.div_ceil(UNIT) + 1) as u16
}

#[inline(always)]
pub(super) fn len(span: u32) -> usize {
    (span >> LEN_AT) as usize
}

#[inline(always)]
pub(super) fn link(span: u32) -> u16 {
    (span & LINK) as u16
}

#[inline(always)]
pub(super) fn is_free(span: u32) -> bool {
    span & FREE != 0
}

#[inline(always)]
pub(super) fn history(tag: u32) -> History {
    (tag >> HISTORY_AT) as u16
}

#[inline(always)]
pub(super) fn with_history(tag: u32, h: History) -> u32 {
    tag & ((1 << HISTORY_AT) - 1) | u32::from(h) << HISTORY_AT
}

#[inline(always)]
pub(super) fn pins(tag: u32, span: u32) -> u16 {
    (tag >> PINS_AT) as u16 & PINS | if span & DOOMED != 0 { PINS_DOOMED } else { 0 }
}

#[inline(always)]
pub(super) fn pins_valid(pins: u16) -> bool {
    pins & !(PINS | PINS_DOOMED) == 0
}

/// Units from this block to the next.
#[inline(always)]
pub(super) fn step(span: u32) -> u16 {
    if is_free(span) {
        return free_step(span);
    }
    (((span >> LEN_AT) + 2 * UNIT as u32 - 1) / UNIT as u32) as u16
}

/// Apart, as there are few of them.
#[cold]
#[inline(always)]
fn free_step(span: u32) -> u16 {
    link(span)
}

impl<P> Cache<P> {
    #[inline(always)]
    pub(super) fn header(&self, at: u16) -> *mut u32 {
        // SAFETY: invariant "blocks": a block begins there, within the buffer; the base is aligned to 8.
        unsafe { self.base.add(at as usize * UNIT) }
            .cast()
            .as_ptr()
    }

    #[inline(always)]
    pub(super) fn tag(&self, at: u16) -> u32 {
        // SAFETY: invariant "blocks": headers are initialised.
        unsafe { self.header(at).read() }
    }

    #[inline(always)]
    pub(super) fn set_tag(&mut self, at: u16, tag: u32) {
        // SAFETY: as in `header`.
        unsafe { self.header(at).write(tag) }
    }

    #[inline(always)]
    pub(super) fn span(&self, at: u16) -> u32 {
        // SAFETY: invariant "blocks": headers are initialised, and two words long.
        unsafe { self.header(at).add(1).read() }
    }

    #[inline(always)]
    pub(super) fn set_span(&mut self, at: u16, span: u32) {
        // SAFETY: as in `header`; it is two words long.
        unsafe { self.header(at).add(1).write(span) }
    }

    #[inline(always)]
    pub(super) fn set_flag(&mut self, at: u16, flag: u32, on: bool) {
        let span = self.span(at);
        self.set_span(at, if on { span | flag } else { span & !flag });
    }

    pub(super) fn set_pins(&mut self, at: u16, pins: u16) {
        let tag = self.tag(at) & !TAG_PINS;
        self.set_tag(at, tag | u32::from(pins & PINS) << PINS_AT);
        self.set_flag(at, DOOMED, pins & PINS_DOOMED != 0);
    }

    #[inline(always)]
    pub(super) fn set_link(&mut self, at: u16, link: u16) {
        let span = self.span(at);
        self.set_span(at, span & !LINK | u32::from(link));
    }

    #[inline(always)]
    pub(super) fn is_free(&self, at: u16) -> bool {
        is_free(self.span(at))
    }

    /// The next block, or `top`.
    #[inline(always)]
    pub(super) fn after(&self, at: u16) -> u16 {
        at + step(self.span(at))
    }

    /// Makes a free block of these units.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn make_free(&mut self, at: u16, units: u16) {
        self.set_tag(at, 0);
        self.set_span(at, FREE | u32::from(units));
    }

    /// Makes a clean, unpinned block in use that is in no chain.
    pub(super) fn make_used(&mut self, at: u16, id: u16, len: usize, h: History) {
        self.set_tag(at, with_history(u32::from(id), h));
        self.set_span(at, (len as u32) << LEN_AT | u32::from(NONE));
    }
}
