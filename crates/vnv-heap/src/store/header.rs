//! The superblock: what `nvmem::superblock` does in a mapped region, here on a medium.
//!
//! ```text
//!  other copy:  first byte 0 -> flush -> bytes 1.. -> flush -> first byte 'R' -> flush (valid now)
//! ```

use super::open::KIND;
use super::units::WORDS;
use super::{Fail, PIECE, Store};
use crate::plain::{as_bytes, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::Medium;
use nvmem::superblock::{Copies, Superblock};

const COPY: u32 = Superblock::COPY_BYTES as u32;
/// First byte of the magic: written last, cleared first.
const MAGIC_FIRST_BYTE: u8 = b'R';

impl<S: Medium, P: Promise> Store<S, P> {
    /// Whether a medium without a valid superblock is all 0 or all 0xFF, apart from bytes of a
    /// format marker that was being written. **Errors**: what else it is. `copies` holds what was
    /// read, and is overwritten.
    pub(super) fn is_blank(&mut self, copies: &mut Copies) -> Result<(), Fail> {
        // A magic means that there was a superblock once.
        let other = if copies.has_magic() {
            Fail::HEADER
        } else {
            Fail::FOREIGN
        };
        // A format marker holds only the kind.
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

    /// Writes the other copy, after everything that was written before. Its first byte makes it
    /// valid. It is either the marker of a format that begins, which is not written twice, or the
    /// end of a format. **Errors**: the marker to end is missing.
    #[inline(never)]
    pub(super) fn put_header(&mut self, fingerprint: u64, formatting: bool) -> Result<(), Fail> {
        self.flush()?;
        let mut copies = MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut copies);
        let (mut which, mut sequence) = (0, 0);
        self.get(0, copies.as_bytes_mut())?;
        for copy in 0..2 {
            if formatting && copies.is_damaged(copy) {
                // Beside a format marker, a broken copy could be taken for a heap.
                self.put(copy as u32 * COPY, &[0])?;
            }
        }
        match copies.newest() {
            Some(n) if formatting && n.is_formatting() && copies.kind(n.copy()) == KIND => {
                return Ok(());
            }
            Some(n) => (which, sequence) = (1 - n.copy(), n.sequence().wrapping_add(1)),
            None if formatting => {}
            // The marker was written before; it is gone.
            None => return Err(Fail::HEADER),
        }
        let at = which as u32 * COPY;
        // A blank first byte stays blank: a cut must leave a blank medium or a torn marker.
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
