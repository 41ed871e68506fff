//! One slot: encoding, writing and reading through a small buffer, each byte once. [The
//! record](super) has the drawing.

use crate::crc::{Crc32, crc32};
use crate::device::{Contract, EraseUnit, Medium};
use crate::planted;

pub(super) const RECORD: [u8; 4] = *b"RLR1";
pub(super) const FORMAT_MARKER: [u8; 4] = *b"RLF1";
pub(super) const HEADER: u32 = 16;
const CRC: u32 = 4;
/// Words after the content on flash: the commit marker and its confirmation. Each is written by its
/// own call.
pub(super) const COMMIT_WORDS: u32 = 2;

/// The most slots used per bank. So the numbers of three banks span less than half of the sequence
/// range.
pub(super) const MAX_SLOTS: u32 = 4096;

/// The header of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub magic: [u8; 4],
    pub sequence: u16,
    pub len: u16,
    pub fingerprint: u64,
}

impl Header {
    /// The header of a format marker.
    pub(super) const FORMATTING: Header = Header {
        magic: FORMAT_MARKER,
        sequence: 0,
        len: 0,
        fingerprint: 0,
    };

    fn encode(&self) -> [u8; HEADER as usize] {
        let mut b = [0; HEADER as usize];
        b[..4].copy_from_slice(&self.magic);
        b[4..6].copy_from_slice(&self.sequence.to_le_bytes());
        b[6..8].copy_from_slice(&self.len.to_le_bytes());
        b[8..].copy_from_slice(&self.fingerprint.to_le_bytes());
        b
    }

    pub(super) fn decode(b: &[u8]) -> Option<Self> {
        let (magic, rest) = b.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<2>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (fingerprint, _) = rest.split_first_chunk::<8>()?;
        if *magic != RECORD && *magic != FORMAT_MARKER {
            return None;
        }
        Some(Header {
            magic: *magic,
            sequence: u16::from_le_bytes(*sequence),
            len: u16::from_le_bytes(*len),
            fingerprint: u64::from_le_bytes(*fingerprint),
        })
    }
}

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// On flash: the first word reads as erased.
    Blank,
    Invalid,
    Valid(Header),
}

/// The sizes of a slot, derived from the medium's contract.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotSizes {
    /// Every offset and length is a multiple of this.
    pub word: u32,
    pub erase: Option<EraseUnit>,
}

impl SlotSizes {
    pub(super) const fn of(c: &Contract) -> Self {
        let without_erase = Contract { erase: None, ..*c };
        let word = without_erase.alignment();
        assert!(
            c.is_sound() && word <= 256,
            "a record needs words of at most 256 bytes"
        );
        if let Some(e) = &c.erase {
            assert!(
                e.size.is_multiple_of(word),
                "a record needs erase units of whole words"
            );
        }
        SlotSizes {
            word,
            erase: c.erase,
        }
    }

    /// Bytes of header, value, padding and checksum. On flash the checksum is never in the first
    /// word, so the first word alone never makes a valid slot.
    pub(super) const fn content(&self, len: u32) -> u32 {
        let n = (HEADER + len + CRC).next_multiple_of(self.word);
        if self.erase.is_some() && n < 2 * self.word {
            2 * self.word
        } else {
            n
        }
    }

    /// Bytes of a slot: the content and, on flash, the commit marker and its confirmation.
    pub(super) const fn stride(&self, len: u32) -> u32 {
        self.content(len)
            + if self.erase.is_some() {
                COMMIT_WORDS * self.word
            } else {
                0
            }
    }

    /// Bytes of the smallest range whose banks hold `updates` updates each.
    pub(super) const fn range(&self, len: u32, updates: u32) -> u32 {
        let (stride, marker) = (self.stride(len) as u64, self.stride(0) as u64);
        let all = match &self.erase {
            Some(e) => {
                assert!(
                    updates <= MAX_SLOTS,
                    "a bank takes 4096 updates at most between two erases"
                );
                let slots = stride * if updates == 0 { 1 } else { updates as u64 };
                let bank = if slots < marker { marker } else { slots };
                3 * bank.next_multiple_of(e.size as u64)
            }
            None => 2 * stride,
        };
        assert!(all <= u32::MAX as u64, "a record has less than 2^32 bytes");
        all as u32
    }

    pub(super) fn erased(&self) -> u8 {
        self.erase.map_or(0xFF, |e| e.erased)
    }
}

/// Writes one slot.
pub(super) fn write<D: Medium>(
    d: &mut D,
    w: &SlotSizes,
    at: u32,
    header: &Header,
    value: &[u8],
) -> Result<(), D::Error> {
    if w.word <= 64 {
        write_in::<D, 64>(d, w, at, header, value)
    } else {
        write_in::<D, 256>(d, w, at, header, value)
    }
}

fn write_in<D: Medium, const N: usize>(
    d: &mut D,
    w: &SlotSizes,
    at: u32,
    header: &Header,
    value: &[u8],
) -> Result<(), D::Error> {
    let head = header.encode();
    let content = w.content(value.len() as u32);
    let padding = content - HEADER - CRC - value.len() as u32;
    let mut crc = Crc32::new().bytes(&head).bytes(value);
    for _ in 0..padding {
        crc = crc.byte(0);
    }
    let crc = crc.finish().to_le_bytes();
    let mut bytes = head
        .iter()
        .chain(value)
        .copied()
        .chain((0..padding).map(|_| 0))
        .chain(crc);
    let mut buf = [0; N];
    let mut off = 0;
    while off < content {
        // Write the first word by its own call. Otherwise the checksum could be complete while the
        // first word reads as erased, and the slot would look unused.
        let piece =
            if off == 0 && w.erase.is_some() && !planted!("nvmem/record-first-word-with-others") {
                w.word
            } else {
                (N as u32 / w.word * w.word).min(content - off)
            };
        let piece_buf = &mut buf[..piece as usize];
        for (to, from) in piece_buf.iter_mut().zip(&mut bytes) {
            *to = from;
        }
        d.write(at + off, piece_buf)?;
        off += piece;
    }
    if w.erase.is_some() {
        buf.fill(!w.erased());
        for i in 0..COMMIT_WORDS {
            d.write(at + content + i * w.word, &buf[..w.word as usize])?;
        }
    }
    let not_flushed = w.erase.is_some() && planted!("nvmem/record-no-flush-on-flash");
    if not_flushed || planted!("nvmem/record-no-flush") {
        return Ok(());
    }
    d.flush()
}

/// Reads one slot of at most `room` bytes, each byte once. Writes the value to `out`, truncated to
/// its length.
pub(super) fn read<D: Medium>(
    d: &mut D,
    w: &SlotSizes,
    at: u32,
    room: u32,
    out: &mut [u8],
) -> Result<Slot, D::Error> {
    if w.word <= 64 {
        read_in::<D, 64>(d, w, at, room, out)
    } else {
        read_in::<D, 256>(d, w, at, room, out)
    }
}

fn read_in<D: Medium, const N: usize>(
    d: &mut D,
    w: &SlotSizes,
    at: u32,
    room: u32,
    out: &mut [u8],
) -> Result<Slot, D::Error> {
    let mut buf = [0; N];
    let most = N as u32 / w.word * w.word;
    let first = most.min(room);
    let piece = &mut buf[..first as usize];
    d.read(at, piece)?;
    let blank = piece.iter().take(w.word as usize).all(|b| *b == w.erased());
    if w.erase.is_some() && blank {
        return Ok(Slot::Blank);
    }
    let Some(header) = Header::decode(piece) else {
        return Ok(Slot::Invalid);
    };
    let len = u32::from(header.len);
    let content = w.content(len);
    if content > room || (header.magic == FORMAT_MARKER && header != Header::FORMATTING) {
        return Ok(Slot::Invalid);
    }
    let (mut crc, mut stored, mut padded) = (Crc32::new(), [0; CRC as usize], true);
    let mut off = 0;
    let mut have = first;
    loop {
        for (i, b) in buf[..have as usize].iter().enumerate() {
            let i = off + i as u32;
            if i >= content {
                break;
            }
            if i >= content - CRC {
                stored[(i + CRC - content) as usize] = *b;
                continue;
            }
            crc = crc.byte(*b);
            if i >= HEADER + len {
                padded &= *b == 0;
            } else if i >= HEADER
                && let Some(to) = out.get_mut((i - HEADER) as usize)
            {
                *to = *b;
            }
        }
        off += have;
        if off >= content {
            break;
        }
        have = most.min(content - off);
        d.read(at + off, &mut buf[..have as usize])?;
    }
    let right =
        u32::from_le_bytes(stored) == crc.finish() || planted!("nvmem/record-crc-unchecked");
    Ok(if right && padded {
        Slot::Valid(header)
    } else {
        Slot::Invalid
    })
}

/// Reads the header at `at` without verifying a checksum.
pub(super) fn read_header<D: Medium>(
    d: &mut D,
    w: &SlotSizes,
    at: u32,
) -> Result<Option<Header>, D::Error> {
    let mut buf = [0; 256];
    let piece = &mut buf[..HEADER.next_multiple_of(w.word) as usize];
    d.read(at, piece)?;
    Ok(Header::decode(piece))
}

/// How many commit words of the slot at `at` were begun: words that do not read as erased.
pub(super) fn commit_words<D: Medium>(
    d: &mut D,
    w: &SlotSizes,
    at: u32,
    len: u32,
) -> Result<u32, D::Error> {
    let mut n = 0;
    let from = at + w.content(len);
    while n < COMMIT_WORDS {
        let word = from + n * w.word;
        if all_bytes_are(d, w, word, word + w.word, w.erased())? {
            break;
        }
        n += 1;
    }
    Ok(n)
}

/// Whether every byte of `from..to` is `byte`.
pub(super) fn all_bytes_are<D: Medium>(
    d: &mut D,
    w: &SlotSizes,
    from: u32,
    to: u32,
    byte: u8,
) -> Result<bool, D::Error> {
    let mut buf = [0; 256];
    let most = 256 / w.word * w.word;
    let mut at = from;
    while at < to {
        let piece = &mut buf[..most.min(to - at) as usize];
        d.read(at, piece)?;
        if piece.iter().any(|b| *b != byte) {
            return Ok(false);
        }
        at += piece.len() as u32;
    }
    Ok(true)
}

/// The size of the slot in `bytes` if its checksum is correct. `word` is the medium's program word.
/// Tries the sizes of media with and without erase.
pub(super) fn intact(bytes: &[u8], word: usize) -> Option<usize> {
    let len = usize::from(Header::decode(bytes)?.len);
    let least = (HEADER as usize + len + CRC as usize).next_multiple_of(word);
    [least, 2 * word].into_iter().find(|n| {
        bytes
            .get(..*n)
            .and_then(|b| b.split_last_chunk::<4>())
            .is_some_and(|(content, crc)| crc32(content) == u32::from_le_bytes(*crc))
    })
}
