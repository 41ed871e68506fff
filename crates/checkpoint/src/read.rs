//! Reads an image: once to check it, and once more into memory.

use crate::Images;
use crate::layout::{
    EXTENT, HEAD, Head, PIECE, PieceBuf, Sizes, TRAILER, ZERO, clear, head_crc, seed, sum, trailer,
};
use crate::memory::Memory;
use nvmem::device::Medium;
use nvmem::planted;

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

/// Reads bytes of a medium in order, in whole words.
#[derive(Clone)]
pub(crate) struct Reader {
    pub at: u32,
}

impl Reader {
    pub(crate) fn read<D: Medium>(
        &mut self,
        medium: &mut D,
        mut out: &mut [u8],
    ) -> Result<(), D::Error> {
        let sizes = const { Sizes::of(&D::CONTRACT) };
        if D::CONTRACT.read_size == 1 {
            medium.read(self.at, out)?;
            self.at += out.len() as u32;
            return Ok(());
        }
        while !out.is_empty() {
            let skip = self.at % sizes.word;
            let n = ((sizes.piece() - skip) as usize).min(out.len());
            let len = (skip + n as u32).next_multiple_of(sizes.word);
            let mut buf = PieceBuf::new();
            // The whole words around the bytes.
            let window = buf.piece(len);
            medium.read(self.at - skip, window)?;
            let Some((now, later)) = out.split_at_mut_checked(n) else {
                break;
            };
            copy(now, window.get(skip as usize..).unwrap_or_default());
            (self.at, out) = (self.at + n as u32, later);
        }
        Ok(())
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Reads the image of a slot, and with `apply` writes it to memory. Returns whether the image
    /// is intact.
    ///
    /// An extent that does not lie in one segment of `memory` is never written.
    #[inline(never)]
    pub(crate) fn walk(
        &mut self,
        slot: usize,
        head: &Head,
        memory: &Memory<'_>,
        apply: bool,
    ) -> Result<bool, D::Error> {
        let base = self.at(slot);
        let medium = &mut self.medium;
        let mut from = Reader { at: base + HEAD };
        // The checksum starts from the head that is used here. If the head on the medium is another
        // by now, the checksum does not match.
        let seed = seed(head);
        let mut crc = seed;
        let mut left = head.body();
        let mut buf = PieceBuf::new();
        let spare = buf.piece(PIECE as u32);
        while left > 0 {
            // A damaged body size makes this read at most into the trailer.
            let mut d = [0; EXTENT as usize];
            from.read(medium, &mut d)?;
            crc = sum(crc, &d);
            let d = u64::from_le_bytes(d);
            let (at, len) = (d as u32, (d >> 32) as u32);
            let (len, zero) = (len & !ZERO, len & ZERO != 0);
            let mut written = if zero { 0 } else { len };
            let (Some(mut to), Some(rest)) =
                (memory.locate(at, len), left.checked_sub(EXTENT + written))
            else {
                return Ok(false);
            };
            left = rest;
            if zero && apply && !planted!("checkpoint/zeros-not-restored") {
                // SAFETY: *In one segment*: `to` has `len` bytes. *Segments are memory*: we may
                // write to them.
                unsafe { clear(to, len as usize) };
            }
            while written > 0 {
                let n = (PIECE as u32).min(written);
                let piece = if apply {
                    // SAFETY: *In one segment*: `len` bytes from the first `to` on, and `n` of them
                    // are left. *Segments are memory*: they are initialised, we may write to them,
                    // and no other reference to them exists.
                    unsafe { core::slice::from_raw_parts_mut(to, n as usize) }
                } else {
                    spare.get_mut(..n as usize).unwrap_or_default()
                };
                from.read(medium, piece)?;
                crc = sum(crc, piece);
                to = to.wrapping_add(n as usize);
                written -= n;
            }
        }
        let mut found = [0; TRAILER as usize];
        from.at = base + Self::SIZES.content(head.body()) - TRAILER;
        from.read(medium, &mut found)?;
        let crc = crc.finish();
        Ok(found == trailer(crc, head_crc(seed, crc)) || planted!("checkpoint/crc-unchecked"))
    }
}
