//! What the bytes of a slot mean, and the sizes that follow from a medium's contract. docs/SPEC.md has the picture.

use crate::mode::Mode;
use core::mem::MaybeUninit;
use nvmem::crc::{Crc32, crc32};
use nvmem::device::{Contract, Torn};

pub(crate) const MAGIC: [u8; 4] = *b"RLC2";
pub(crate) const HEAD: u32 = 36;
pub(crate) const TRAILER: u32 = 8;
/// In front of the bytes of each extent.
pub(crate) const EXTENT: u32 = 8;
/// In the size of an extent: it is zero, and its bytes are left out.
pub(crate) const ZERO: u32 = 1 << 31;
/// The largest piece that is read or written.
pub(crate) const PIECE: usize = 256;
/// Words behind the content that are written one after the other, each by a call of its own.
pub(crate) const MARKS: u32 = 2;

/// The first bytes of a slot, as they are there: nine words, the least significant byte first.
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

    /// One that is to be read.
    pub(crate) fn unread() -> Self {
        let mut head = MaybeUninit::<Head>::uninit();
        // SAFETY: *Words are bytes*: a head is so many bytes, and zeros are one.
        unsafe {
            clear(head.as_mut_ptr().cast(), HEAD as usize);
            head.assume_init()
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytes(&self.0)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; HEAD as usize] {
        // SAFETY: *Words are bytes*: as many, without padding, and any bytes are words; borrowed as the head is.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }

    fn field(&self, i: usize) -> u32 {
        self.0.get(i).map_or(0, |w| u32::from_le(*w))
    }

    /// Whether these bytes are a head at all.
    pub(crate) fn is_one(&self) -> bool {
        self.field(0) == u32::from_le_bytes(MAGIC) && self.field(2) == !self.sequence()
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.field(1)
    }

    /// The same with another number.
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

/// Words as they lie in memory.
pub(crate) fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: *Words are bytes*: as many, without padding, and any alignment does; borrowed as the words are.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// What the checksum of an image goes on from: its head.
pub(crate) fn seed(head: &Head) -> Crc32 {
    sum(Crc32::new(), head.bytes())
}

/// The checksum of head and checksum together: that the trailer is this head's.
pub(crate) fn seal(seed: Crc32, crc: u32) -> u32 {
    sum(seed, &crc.to_le_bytes()).finish()
}

/// The last bytes of a content: its checksum, and what makes them its head's.
pub(crate) fn trailer(crc: u32, seal: u32) -> [u8; TRAILER as usize] {
    (u64::from(crc) | u64::from(seal) << 32).to_le_bytes()
}

/// What both marks of an image with this seal are made of, over and over.
pub(crate) fn mark(seal: u32, which: u32) -> [u8; 4] {
    crc32(&(seal ^ (which + 1)).to_le_bytes()).to_le_bytes()
}

/// A checksum that goes on; not inlined, since it is asked for everywhere.
#[inline(never)]
pub(crate) fn sum(crc: Crc32, bytes: &[u8]) -> Crc32 {
    crc.bytes(bytes)
}

/// Zeroes bytes one by one: the compiler's own way is as large as the rest of a small program.
///
/// # Safety
/// `n` bytes may be written there.
#[inline(never)]
pub(crate) unsafe fn clear(to: *mut u8, n: usize) {
    for i in 0..n {
        // SAFETY: the caller says that `n` bytes may be written there.
        unsafe { to.wrapping_add(i).write_volatile(0) };
    }
}

/// The same for a slice.
pub(crate) fn zero(b: &mut [u8]) {
    // SAFETY: a slice that is borrowed mutably has so many bytes.
    unsafe { clear(b.as_mut_ptr(), b.len()) }
}

/// Room for a piece.
pub(crate) struct Room(MaybeUninit<[u8; PIECE]>);

impl Room {
    pub(crate) fn new() -> Self {
        Room(MaybeUninit::uninit())
    }

    /// Zeros, not more than a piece.
    pub(crate) fn piece(&mut self, n: u32) -> &mut [u8] {
        let (p, n) = (self.0.as_mut_ptr().cast(), PIECE.min(n as usize));
        // SAFETY: *Words are bytes*: a room has at least `n` bytes, which are zeros before there is a reference to them.
        unsafe {
            clear(p, n);
            core::slice::from_raw_parts_mut(p, n)
        }
    }
}

/// The sizes that follow from a medium's contract.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// What every offset and length is a multiple of.
    pub word: u32,
    /// Bytes that are erased together, or written together where nothing is erased.
    pub unit: u32,
    pub erases: bool,
    /// Whether a word whose programming was cut may read differently each time.
    pub unstable: bool,
    /// What a slot starts at a multiple of.
    pub align: u32,
}

impl Sizes {
    pub(crate) const fn of(c: &Contract) -> Self {
        let word = Contract { erase: None, ..*c }.alignment();
        assert!(
            c.is_sound() && word as usize <= PIECE,
            "an image needs words of at most 256 bytes"
        );
        if let Some(e) = &c.erase {
            assert!(
                e.size.is_multiple_of(word),
                "an image needs erase units of whole words, for reading, too"
            );
        }
        let piece = PIECE as u32 / word * word;
        Sizes {
            word,
            unit: match &c.erase {
                Some(e) => e.size,
                None => piece,
            },
            erases: c.erase.is_some(),
            unstable: matches!(c.torn, Torn::Unstable),
            align: c.alignment(),
        }
    }

    /// The largest piece of whole words.
    pub(crate) const fn piece(&self) -> u32 {
        PIECE as u32 / self.word * self.word
    }

    /// Bytes of head, body and trailer. Where no mark says so, the trailer says that all before it was written: then it has words of its own.
    pub(crate) const fn content(&self, body: u32) -> u32 {
        if self.unstable {
            return (HEAD + body + TRAILER).next_multiple_of(self.word);
        }
        (HEAD + body).next_multiple_of(self.word) + TRAILER.next_multiple_of(self.word)
    }

    /// Whether head, parts and trailer of an image in this mode are written as they are, whatever their lengths.
    pub(crate) const fn as_it_is<M: Mode>(&self) -> bool {
        M::FEW && !M::COMPARE && self.word == 1 && !self.erases
    }

    /// Bytes of one mark; none where a word never reads in two ways.
    pub(crate) const fn mark(&self) -> u32 {
        if self.unstable {
            4u32.next_multiple_of(self.word)
        } else {
            0
        }
    }

    /// All that an image takes in its slot; `None` when that is more than any medium has.
    pub(crate) const fn whole(&self, body: u32) -> Option<u32> {
        if body > 1 << 31 {
            return None;
        }
        Some(self.content(body) + MARKS * self.mark())
    }
}
