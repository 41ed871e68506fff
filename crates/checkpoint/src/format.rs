//! The bytes of a slot, and the sizes that follow from a medium's contract. docs/spec/checkpoint.md
//! has the format.
//!
//! ```text
//!  offset  0      4         8          12    16       24      28       32    36
//!          +------+---------+----------+-----+--------+-------+--------+-----+
//!  head    | RLC3 | sequen. | ~sequen. | body| program| memory| context| name|
//!          +------+---------+----------+-----+--------+-------+--------+-----+
//!  body    | offset 4 | length 4 | bytes... |  once for each extent; a zero extent has no bytes
//!          +----------+----------+----------+
//!  trailer | CRC of head and body 4 | CRC of head and that CRC 4 |
//!          +------------------------+----------------------------+
//!  marker  | marker word | confirmation |    only on media with unstable words
//!          +-------------+--------------+
//! ```

use crate::mode::Mode;
use core::mem::MaybeUninit;
use nvmem::crc::Crc32;
use nvmem::device::{Contract, Medium, Torn};
use nvmem::marker::{self, Marker};
use nvmem::planted;

pub(crate) const MAGIC: [u8; 4] = *b"RLC3";
/// The format before this one, which is refused.
const OLDER: [u8; 4] = *b"RLC2";
pub(crate) const HEAD: u32 = 36;
pub(crate) const TRAILER: u32 = 8;
/// Bytes that describe an extent, in front of its content.
pub(crate) const EXTENT: u32 = 8;
/// A bit in an extent's length: its bytes are zero and left out.
pub(crate) const ZERO: u32 = 1 << 31;
/// The most bytes that one call reads or writes.
pub(crate) const PIECE: usize = 256;
/// The words of the commit marker: the marker word and its confirmation.
pub(crate) const MARKER_WORDS: u32 = 2;

// INVARIANT "Words are bytes": heads and buffers are words or bytes without padding, and all of
// them are written before they are read.
// Noticed by: the suite under Miri.
/// A slot's head as it lies on the medium: nine words, least significant byte first.
#[derive(Clone, Copy)]
pub(crate) struct Head([u32; HEAD as usize / 4]);

impl Head {
    pub(crate) fn new(
        sequence: u32,
        body: u32,
        program: u64,
        memory: u32,
        context: u32,
        name: u32,
    ) -> Self {
        let fields = [
            u32::from_le_bytes(MAGIC),
            sequence,
            !sequence,
            body,
            program as u32,
            (program >> 32) as u32,
            memory,
            context,
            name,
        ];
        Head(fields.map(u32::to_le))
    }

    /// A zeroed head, to read into.
    pub(crate) fn unread() -> Self {
        let mut head = MaybeUninit::<Head>::uninit();
        // SAFETY: *Words are bytes*: a head is `HEAD` bytes, and zeros are a valid one.
        unsafe {
            clear(head.as_mut_ptr().cast(), HEAD as usize);
            head.assume_init()
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytes(&self.0)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; HEAD as usize] {
        // SAFETY: *Words are bytes*: the array has `HEAD` bytes without padding, and any bytes are
        // valid words. The result borrows `self`.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }

    fn field(&self, i: usize) -> u32 {
        self.0.get(i).map_or(0, |w| u32::from_le(*w))
    }

    /// Whether these bytes are a head: the magic number, and a sequence number with its complement.
    pub(crate) fn is_valid(&self) -> bool {
        self.field(0) == u32::from_le_bytes(MAGIC) && self.field(2) == !self.sequence()
    }

    /// Whether all words are the same, as after an erase.
    pub(crate) fn is_blank(&self) -> bool {
        self.0.iter().all(|w| *w == self.0[0])
    }

    /// Whether these bytes begin as the head of an older format.
    pub(crate) fn is_older(&self) -> bool {
        self.field(0) == u32::from_le_bytes(OLDER)
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.field(1)
    }

    /// Sets the sequence number.
    pub(crate) fn set_sequence(&mut self, sequence: u32) {
        self.0[1] = sequence.to_le();
        self.0[2] = (!sequence).to_le();
    }

    /// Bytes of the body: the extents.
    pub(crate) fn body(&self) -> u32 {
        self.field(3)
    }

    pub(crate) fn program(&self) -> u64 {
        u64::from(self.field(4)) | u64::from(self.field(5)) << 32
    }

    pub(crate) fn memory(&self) -> u32 {
        self.field(6)
    }

    pub(crate) fn context(&self) -> u32 {
        self.field(7)
    }

    pub(crate) fn name(&self) -> u32 {
        self.field(8)
    }
}

/// The bytes of words as they lie in memory.
pub(crate) fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: *Words are bytes*: the slice has `size_of_val(words)` bytes without padding, and `u8`
    // needs no alignment. The result borrows `words`.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// The checksum of a head, from which the image's checksum continues.
pub(crate) fn seed(head: &Head) -> Crc32 {
    sum(Crc32::new(), head.bytes())
}

/// The CRC of head and content CRC together. It shows that a trailer belongs to this head.
pub(crate) fn head_crc(seed: Crc32, crc: u32) -> u32 {
    sum(seed, &crc.to_le_bytes()).finish()
}

/// The trailer: the CRC of head and body, and the CRC that binds it to the head.
pub(crate) fn trailer(crc: u32, head_crc: u32) -> [u8; TRAILER as usize] {
    (u64::from(crc) | u64::from(head_crc) << 32).to_le_bytes()
}

/// Whether the marker word (`which` 0) or its confirmation (1) reads as written. Their first four
/// bytes are enough: if these read right, the word was begun.
pub(crate) fn is_written<D: Medium>(
    medium: &mut D,
    marker: Marker,
    which: u32,
) -> Result<bool, D::Error> {
    let mut found = [0; 4];
    let at = marker.at + which * const { marker::marker_size(&D::CONTRACT) };
    marker::read(medium, at, &mut found)?;
    Ok(found == marker.word(which))
}

// INVARIANT "Flushed before it is believed": what a load or a save finds on the medium stays there:
// a flush comes first. An error is not a cut: a save whose last flush failed has left its
// checkpoint in the medium's buffer, where the same boot reads it. If that one counted, the next
// save would overwrite the checkpoint before it, and a cut then leaves neither.
// Noticed by: tests/suite/generated/found.rs; planted `buffer-believed`.
/// Makes persistent what this boot has written before, so that what is read now stays.
pub(crate) fn flush_before_reading<D: Medium>(medium: &mut D) -> Result<(), D::Error> {
    if planted!("checkpoint/buffer-believed") {
        return Ok(());
    }
    medium.flush()
}

/// Continues a checksum. Not inlined, because many places call it.
#[inline(never)]
pub(crate) fn sum(crc: Crc32, bytes: &[u8]) -> Crc32 {
    crc.bytes(bytes)
}

/// Zeroes bytes one by one: the compiler's `memset` would be as large as the rest of a small
/// program.
///
/// # Safety
/// `n` bytes may be written there.
#[inline(never)]
pub(crate) unsafe fn clear(to: *mut u8, n: usize) {
    for i in 0..n {
        // SAFETY: *Segments are memory*: the caller promises that `n` bytes may be written.
        unsafe { to.wrapping_add(i).write_volatile(0) };
    }
}

/// Zeroes a slice with [`clear`].
pub(crate) fn zero(b: &mut [u8]) {
    // SAFETY: *Words are bytes*: a mutable slice has `len` bytes.
    unsafe { clear(b.as_mut_ptr(), b.len()) }
}

/// A buffer for one piece.
pub(crate) struct PieceBuf(MaybeUninit<[u8; PIECE]>);

impl PieceBuf {
    pub(crate) fn new() -> Self {
        PieceBuf(MaybeUninit::uninit())
    }

    /// `n` zeroed bytes, at most a piece.
    pub(crate) fn piece(&mut self, n: u32) -> &mut [u8] {
        let (p, n) = (self.0.as_mut_ptr().cast(), PIECE.min(n as usize));
        // SAFETY: *Words are bytes*: the buffer has at least `n` bytes. They are zeroed before a
        // reference to them exists.
        unsafe {
            clear(p, n);
            core::slice::from_raw_parts_mut(p, n)
        }
    }
}

/// The sizes that follow from a medium's contract.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// The program word: every offset and length is a multiple of it.
    pub word: u32,
    /// Bytes of an erase unit; without erase, the most bytes written together.
    pub unit: u32,
    pub erases: bool,
    /// Whether a word whose programming was cut may read differently each time.
    pub unstable: bool,
    /// Bytes of one marker word; 0 on media without unstable words.
    pub marker: u32,
    /// The alignment of a slot's start.
    pub align: u32,
}

impl Sizes {
    pub(crate) const fn of(c: &Contract) -> Self {
        let word = marker::word_size(c);
        let unstable = matches!(c.torn, Torn::Unstable);
        let piece = PIECE as u32 / word * word;
        Sizes {
            word,
            unit: match &c.erase {
                Some(e) => e.size,
                None => piece,
            },
            erases: c.erase.is_some(),
            unstable,
            marker: if unstable { marker::marker_size(c) } else { 0 },
            align: c.alignment(),
        }
    }

    /// The largest piece of whole words.
    pub(crate) const fn piece(&self) -> u32 {
        PIECE as u32 / self.word * self.word
    }

    /// Bytes of head, body and trailer. Without a marker the trailer is the commit marker, so it
    /// has words of its own.
    pub(crate) const fn content(&self, body: u32) -> u32 {
        if self.unstable {
            return (HEAD + body + TRAILER).next_multiple_of(self.word);
        }
        (HEAD + body).next_multiple_of(self.word) + TRAILER.next_multiple_of(self.word)
    }

    /// Whether an image in this mode is written without collecting pieces, whatever the extents'
    /// lengths.
    pub(crate) const fn writes_plain<M: Mode>(&self) -> bool {
        M::FEW_EXTENTS && !M::COMPARE && self.word == 1 && !self.erases
    }

    /// Bytes of a whole image in its slot; `None` if no medium is that large.
    pub(crate) const fn whole(&self, body: u32) -> Option<u32> {
        if body > 1 << 31 {
            return None;
        }
        Some(self.content(body) + MARKER_WORDS * self.marker)
    }
}

/// Copies as many bytes as both slices have, and returns that number. Byte by byte: the compiler's
/// `memcpy` would be as large as the rest of a small program.
#[inline(never)]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) -> usize {
    let n = to.len().min(from.len());
    for i in 0..n {
        // SAFETY: *Words are bytes*: both slices have at least `n` bytes, and one is borrowed
        // mutably, so they do not overlap.
        unsafe {
            let b = from.as_ptr().wrapping_add(i).read();
            to.as_mut_ptr().wrapping_add(i).write_volatile(b);
        }
    }
    n
}
