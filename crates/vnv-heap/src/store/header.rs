//! The superblock at the start: what `nvmem::superblock` does in a mapped region, on a medium.

use crate::error::{Error, OpenError};
use nvmem::Medium;
use nvmem::superblock::{Stored, Superblock};

const COPY: usize = Superblock::COPY_BYTES;
/// The first byte of the magic: the last to be written, the first to be taken away.
const GATE: u8 = b'R';

/// A medium without an intact copy.
pub(super) enum Other {
    /// All 0 or all 0xFF, but for bytes of a marker that was being written.
    Blank,
    Foreign,
    Damaged,
}

/// Which copy counts, and what it says.
#[inline(never)]
pub(super) fn newest<S: Medium>(
    medium: &mut S,
    best: &mut Option<Stored>,
) -> Result<u32, S::Error> {
    let mut which = 0;
    for i in 0..2 {
        let mut b = [0; COPY];
        medium.read(i * COPY as u32, &mut b)?;
        let Some(c) = Superblock::decode(&b) else {
            continue;
        };
        let later = |b: &Stored| (c.sequence.wrapping_sub(b.sequence) as i16) > 0;
        if best.as_ref().is_none_or(later) {
            *best = Some(c);
            which = i;
        }
    }
    Ok(which)
}

/// What a medium without an intact copy is.
#[inline(never)]
pub(super) fn other<S: Medium>(medium: &mut S, mine: &Superblock) -> Result<Other, S::Error> {
    let marker = mine.encode_marker(0);
    let end = medium.capacity();
    let mut b = [0; 32];
    medium.read(end - 1, &mut b[..1])?;
    let fill = b[0];
    let erased = fill == 0 || fill == 0xFF;
    let mut at = 0;
    while at < end {
        let n = (end - at).min(32) as usize;
        let piece = b.get_mut(..n).unwrap_or_default();
        medium.read(at, piece)?;
        for &mut v in piece {
            let of_marker = marker.get(at as usize) == Some(&v);
            if !erased || v != fill && !of_marker {
                return magic(medium);
            }
            at += 1;
        }
    }
    Ok(Other::Blank)
}

/// Whether there was a superblock once.
fn magic<S: Medium>(medium: &mut S) -> Result<Other, S::Error> {
    for i in 0..2 {
        let mut b = [0; 4];
        medium.read(i * COPY as u32, &mut b)?;
        if b == *b"RLM1" {
            return Ok(Other::Damaged);
        }
    }
    Ok(Other::Foreign)
}

/// Writes a copy that becomes valid with its first byte, after everything that was written before.
#[inline(never)]
fn write<S: Medium>(medium: &mut S, i: u32, bytes: &[u8; COPY]) -> Result<(), S::Error> {
    let at = i * COPY as u32;
    let mut first = [0];
    medium.read(at, &mut first)?;
    // A blank first byte stays blank: a cut must leave what is blank, or a torn marker.
    if first[0] == GATE {
        medium.write(at, &[0])?;
        medium.flush()?;
    }
    medium.write(at + 1, &bytes[1..])?;
    medium.flush()?;
    medium.write(at, &bytes[..1])?;
    medium.flush()
}

/// Marks the medium as being formatted; what it held is given up.
pub(super) fn begin<S: Medium>(medium: &mut S, mine: &Superblock) -> Result<(), S::Error> {
    let mut found = None;
    let i = newest(medium, &mut found)?;
    match found {
        Some(c) if c.formatting && c.superblock.kind == mine.kind => Ok(()),
        Some(c) => write(
            medium,
            1 - i,
            &mine.encode_marker(c.sequence.wrapping_add(1)),
        ),
        None => write(medium, 0, &mine.encode_marker(0)),
    }
}

/// Ends the format: from here on the medium holds what was written since [`begin`].
pub(super) fn finish<S: Medium>(
    medium: &mut S,
    mine: &Superblock,
) -> Result<(), OpenError<S::Error>> {
    let failed = |e| OpenError::Failed(Error::Medium(e));
    medium.flush().map_err(failed)?;
    let mut found = None;
    let i = newest(medium, &mut found).map_err(failed)?;
    match found {
        Some(c) => write(medium, 1 - i, &mine.encode(c.sequence.wrapping_add(1))).map_err(failed),
        // The marker was written and read back before.
        None => Err(OpenError::Damaged(crate::error::Part::Header)),
    }
}
