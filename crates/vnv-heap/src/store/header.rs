//! The superblock at the start: what `nvmem::superblock` does in a mapped region, on a medium.

use super::map::Map;
use super::open::KIND;
use super::units::WORDS;
use super::{Fail, PIECE, Store};
use crate::plain::{as_bytes, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::Medium;
use nvmem::superblock::{Superblock, Words};

const COPY: u32 = Superblock::COPY_BYTES as u32;
/// The first byte of the magic: the last to be written, the first to be taken away.
const GATE: u8 = b'R';

/// The copy that counts.
pub(super) struct Newest {
    which: u32,
    sequence: u16,
    /// Whether it says that a format is under way.
    pub(super) formatting: bool,
}

/// A medium without an intact copy.
pub(super) enum Other {
    /// All 0 or all 0xFF, but for bytes of a marker that was being written.
    Blank,
    Foreign,
    Damaged,
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// Which copy counts; if one does, its words.
    #[inline(never)]
    pub(super) fn newest_header(&mut self, words: &mut Words) -> Result<Option<Newest>, Fail> {
        // No copy yet. Written out whole: a compiler may compare its number before it asks whether there is one, and a run
        // would depend on what the RAM held.
        const NEITHER: u32 = 2;
        let mut best = Newest {
            which: NEITHER,
            sequence: 0,
            formatting: false,
        };
        // The first one is read again, if it is newer.
        for which in [0, 1, 0] {
            if which == 0 && best.which == 1 {
                break;
            }
            self.get(which * COPY, words.as_bytes_mut())?;
            let Some((sequence, formatting)) = words.order() else {
                continue;
            };
            let later = (sequence.wrapping_sub(best.sequence) as i16) > 0;
            if best.which == NEITHER || later {
                best = Newest {
                    which,
                    sequence,
                    formatting,
                };
            }
        }
        Ok((best.which != NEITHER).then_some(best))
    }

    /// What a medium without an intact copy is.
    #[inline(never)]
    pub(super) fn other(&mut self) -> Result<Other, Fail> {
        let mut marker = MaybeUninit::uninit();
        let marker = Words::zeroed(&mut marker);
        marker.fill(&Self::superblock(Map::NONE, 0), 0, true);
        let end = self.medium.capacity();
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        self.get(end - 1, &mut b[..1])?;
        let fill = b[0];
        let mut at = 0;
        let mut blank = fill == 0 || fill == 0xFF;
        while at < end && blank {
            let n = (end - at).min(PIECE as u32) as usize;
            let piece = b.get_mut(..n).unwrap_or_default();
            self.get(at, piece)?;
            for v in piece {
                blank &= *v == fill || marker.as_bytes().get(at as usize) == Some(v);
                at += 1;
            }
        }
        if blank {
            return Ok(Other::Blank);
        }
        // Whether there was a superblock once.
        for i in 0..2 {
            let mut b = [0; 4];
            self.get(i * COPY, &mut b)?;
            if b == *b"RLM1" {
                return Ok(Other::Damaged);
            }
        }
        Ok(Other::Foreign)
    }

    /// Writes the other copy, after everything that was written before, so that it becomes valid with its first byte: the mark of a format
    /// that begins, which is not written twice, or the end of it. False when there is no mark of which this would be the end.
    #[inline(never)]
    pub(super) fn put_header(&mut self, fingerprint: u64, formatting: bool) -> Result<bool, Fail> {
        self.flush()?;
        let mut words = MaybeUninit::uninit();
        let words = Words::zeroed(&mut words);
        let (mut at, mut sequence) = (0, 0);
        match self.newest_header(words)? {
            Some(n) if formatting && n.formatting && words.superblock().kind == KIND => {
                return Ok(true);
            }
            Some(n) => (at, sequence) = ((1 - n.which) * COPY, n.sequence.wrapping_add(1)),
            None if formatting => {}
            // The marker was written and read back before.
            None => return Ok(false),
        }
        let mut first = [0];
        self.get(at, &mut first)?;
        // A blank first byte stays blank: a cut must leave what is blank, or a torn marker.
        if first[0] == GATE {
            self.put(at, &[0])?;
            self.flush()?;
        }
        words.fill(
            &Self::superblock(self.map, fingerprint),
            sequence,
            formatting,
        );
        let bytes = words.as_bytes();
        self.put(at + 1, &bytes[1..])?;
        self.flush()?;
        self.put(at, &bytes[..1])?;
        self.flush()?;
        Ok(true)
    }
}
