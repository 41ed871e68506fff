//! What the bytes of a slot mean, and the sizes that follow from a medium's contract. docs/SPEC.md has the picture.

use nvmem::crc::{Crc32, crc32};
use nvmem::device::{Contract, Torn};

pub(crate) const MAGIC: [u8; 4] = *b"RLC1";
pub(crate) const HEAD: u32 = 32;
pub(crate) const TRAILER: u32 = 8;
/// In front of the bytes of each extent.
pub(crate) const EXTENT: u32 = 8;
/// In the size of an extent: it is zero, and its bytes are left out.
pub(crate) const ZERO: u32 = 1 << 31;
/// The largest piece that is read or written.
pub(crate) const PIECE: usize = 256;
/// Words behind the content that are written one after the other, each by a call of its own.
pub(crate) const MARKS: u32 = 2;

/// The first bytes of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub sequence: u32,
    /// Bytes of the body: the extents.
    pub body: u32,
    pub program: u64,
    pub memory: u32,
    pub context: u32,
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD as usize] {
        let mut b = [0; HEAD as usize];
        let fields = [
            u32::from_le_bytes(MAGIC),
            self.sequence,
            !self.sequence,
            self.body,
            self.program as u32,
            (self.program >> 32) as u32,
            self.memory,
            self.context,
        ];
        for (to, f) in b.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&f.to_le_bytes());
        }
        b
    }

    pub(crate) fn decode(b: &[u8; HEAD as usize]) -> Option<Self> {
        let field = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let head = Head {
            sequence: field(4),
            body: field(12),
            program: u64::from(field(16)) | u64::from(field(20)) << 32,
            memory: field(24),
            context: field(28),
        };
        (b[..4] == MAGIC && field(8) == !head.sequence).then_some(head)
    }
}

/// The checksum of head and content together: that the trailer is this head's.
pub(crate) fn seal(head: &[u8; HEAD as usize], crc: u32) -> u32 {
    Crc32::new().bytes(head).word(crc).finish()
}

/// What both marks of an image with this seal are made of, over and over.
pub(crate) fn mark(seal: u32, which: u32) -> [u8; 4] {
    crc32(&(seal ^ (which + 1)).to_le_bytes()).to_le_bytes()
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
