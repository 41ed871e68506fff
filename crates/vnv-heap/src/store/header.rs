//! The superblock at the start: what `nvmem::superblock` does in a mapped region, on a medium.

use super::open::KIND;
use super::units::WORDS;
use super::{Fail, PIECE, Store};
use crate::plain::{as_bytes, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::Medium;
use nvmem::superblock::{Copies, Superblock};

const COPY: u32 = Superblock::COPY_BYTES as u32;
/// The first byte of the magic: the last to be written, the first to be taken away.
const MAGIC_FIRST_BYTE: u8 = b'R';

impl<S: Medium, P: Promise> Store<S, P> {
    /// Whether a medium without an intact copy is all 0 or all 0xFF, but for bytes of a marker that was being written. **Errors**: what
    /// else it is. `copies` are what was read, and are used.
    pub(super) fn is_blank(&mut self, copies: &mut Copies) -> Result<(), Fail> {
        // Whether there was a superblock once.
        let other = if copies.any_magic() {
            Fail::HEADER
        } else {
            Fail::FOREIGN
        };
        // A marker says nothing but its kind.
        copies.fill(0, &self.superblock(0), 0, true);
        let marker = copies.copy(0);
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
                blank &= *v == fill || marker.get(at as usize) == Some(v);
                at += 1;
            }
        }
        if blank { Ok(()) } else { Err(other) }
    }

    /// Writes the other copy, after everything that was written before, so that it becomes valid with its first byte: the mark of a format
    /// that begins, which is not written twice, or the end of it. **Errors**: that there is no mark of which this would be the end.
    #[inline(never)]
    pub(super) fn put_header(&mut self, fingerprint: u64, formatting: bool) -> Result<(), Fail> {
        self.flush()?;
        let mut copies = MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut copies);
        let (mut which, mut sequence) = (0, 0);
        self.get(0, copies.as_bytes_mut())?;
        for copy in 0..2 {
            if formatting && copies.is_broken(copy) {
                // Beside a mark it would say that there is a heap.
                self.put(copy as u32 * COPY, &[0])?;
            }
        }
        match copies.newest() {
            Some(n) if formatting && n.is_formatting() && copies.kind(n.copy()) == KIND => {
                return Ok(());
            }
            Some(n) => (which, sequence) = (1 - n.copy(), n.sequence().wrapping_add(1)),
            None if formatting => {}
            // The marker was written and read back before.
            None => return Err(Fail::HEADER),
        }
        let at = which as u32 * COPY;
        // A blank first byte stays blank: a cut must leave what is blank, or a torn marker.
        if copies.copy(which)[0] == MAGIC_FIRST_BYTE {
            self.put(at, &[0])?;
            self.flush()?;
        }
        copies.fill(which, &self.superblock(fingerprint), sequence, formatting);
        let bytes = copies.copy(which);
        self.put(at + 1, &bytes[1..])?;
        self.flush()?;
        self.put(at, &bytes[..1])?;
        self.flush()
    }
}
