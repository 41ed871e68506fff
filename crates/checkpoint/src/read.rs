//! How an image is read: all of it once to see that it is sound, and once more into memory.

use crate::Images;
use crate::layout::{EXTENT, HEAD, Head, PIECE, Sizes, TRAILER, ZERO, seal};
use crate::memory::Memory;
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// Copies to all of `to`, from the byte `skip` on.
pub(crate) fn copy(to: &mut [u8], from: &[u8], skip: u32) {
    let from = from.iter().skip(skip as usize);
    to.iter_mut().zip(from).for_each(|(to, b)| *to = *b);
}

/// Bytes of a medium in order, read by whole words.
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
        while !out.is_empty() {
            let skip = self.at % sizes.word;
            let n = ((sizes.piece() - skip) as usize).min(out.len());
            let len = (skip + n as u32).next_multiple_of(sizes.word) as usize;
            let mut buf = [0; PIECE];
            // Always so: whole words of a piece.
            let Some(window) = buf.get_mut(..len) else {
                break;
            };
            medium.read(self.at - skip, window)?;
            let Some((now, later)) = out.split_at_mut_checked(n) else {
                break;
            };
            copy(now, window, skip);
            (self.at, out) = (self.at + n as u32, later);
        }
        Ok(())
    }
}

/// A reader that keeps the checksum of what it has read.
struct Summed {
    reader: Reader,
    crc: Crc32,
}

impl Summed {
    fn read<D: Medium>(&mut self, medium: &mut D, out: &mut [u8]) -> Result<(), D::Error> {
        self.reader.read(medium, out)?;
        self.crc = self.crc.bytes(out);
        Ok(())
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Reads the image of a slot, and with `apply` writes what it holds to memory. Whether the image is sound.
    ///
    /// What cannot lie in `memory` is never written anywhere.
    pub(crate) fn walk(
        &mut self,
        slot: usize,
        head: &Head,
        memory: &Memory<'_>,
        apply: bool,
    ) -> Result<bool, D::Error> {
        let base = self.at(slot);
        let medium = &mut self.medium;
        let mut from = Summed {
            reader: Reader { at: base },
            crc: Crc32::new(),
        };
        let mut bytes = [0; HEAD as usize];
        from.read(medium, &mut bytes)?;
        let mut left = head.body;
        let mut buf = [0; PIECE];
        while left > 0 {
            let mut d = [0; EXTENT as usize];
            let Some(rest) = left.checked_sub(EXTENT) else {
                return Ok(false);
            };
            from.read(medium, &mut d)?;
            let at = u32::from_le_bytes([d[0], d[1], d[2], d[3]]);
            let len = u32::from_le_bytes([d[4], d[5], d[6], d[7]]);
            let (len, zero) = (len & !ZERO, len & ZERO != 0);
            let written = if zero { 0 } else { len };
            let (Some(to), Some(rest)) = (memory.locate(at, len), rest.checked_sub(written)) else {
                return Ok(false);
            };
            left = rest;
            if zero && apply && !planted!("checkpoint/zeros-not-restored") {
                // SAFETY: `locate` says that `len` bytes from `to` on are in a segment, which is ours to write.
                unsafe { to.write_bytes(0, len as usize) };
            }
            let mut off = 0;
            while off < written {
                let n = (PIECE as u32).min(written - off) as usize;
                let Some(piece) = buf.get_mut(..n) else {
                    return Ok(false);
                };
                from.read(medium, piece)?;
                if apply {
                    // SAFETY: `locate` says that `len` bytes from `to` on are in a segment, which is ours to write; `buf` is a local.
                    unsafe {
                        let to = to.wrapping_add(off as usize);
                        core::ptr::copy_nonoverlapping(piece.as_ptr(), to, n);
                    }
                }
                off += n as u32;
            }
        }
        let crc = from.crc.finish();
        let mut trailer = [0; TRAILER as usize];
        from.reader.at = base + Self::SIZES.content(head.body) - TRAILER;
        from.reader.read(medium, &mut trailer)?;
        let mut expected = [0; TRAILER as usize];
        expected[..4].copy_from_slice(&crc.to_le_bytes());
        // Of the head that is acted upon: that it is the one which was just read.
        expected[4..].copy_from_slice(&seal(&head.encode(), crc).to_le_bytes());
        Ok(trailer == expected || planted!("checkpoint/crc-unchecked"))
    }
}
