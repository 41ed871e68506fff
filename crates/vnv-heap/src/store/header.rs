//! The superblock at the start: what `nvmem::superblock` does in a mapped region, on a medium.

use crate::error::{Error, OpenError};
use nvmem::Medium;
use nvmem::superblock::{State, Stored, Superblock};

const COPY: usize = Superblock::COPY_BYTES;
/// The first byte of the magic: the last to be written, the first to be taken away.
const GATE: u8 = b'R';

fn copy<S: Medium>(medium: &mut S, i: u32) -> Result<[u8; COPY], S::Error> {
    let mut b = [0; COPY];
    medium.read(i * COPY as u32, &mut b)?;
    Ok(b)
}

/// Which copy counts, and what it says.
fn newest<S: Medium>(medium: &mut S) -> Result<Option<(u32, Stored)>, S::Error> {
    let mut best: Option<(u32, Stored)> = None;
    for i in 0..2 {
        let Some(c) = Superblock::decode(&copy(medium, i)?) else {
            continue;
        };
        let later = |b: &Stored| (c.sequence.wrapping_sub(b.sequence) as i16) > 0;
        if best.as_ref().is_none_or(|(_, b)| later(b)) {
            best = Some((i, c));
        }
    }
    Ok(best)
}

/// What the medium holds.
pub(super) fn probe<S: Medium>(medium: &mut S, mine: &Superblock) -> Result<State, S::Error> {
    match newest(medium)? {
        Some((_, c)) if !c.formatting => Ok(State::Ready(c.superblock)),
        Some((_, c)) if c.superblock.kind == mine.kind => Ok(State::Formatting),
        Some(_) => Ok(State::Foreign),
        None => other(medium, mine),
    }
}

/// What a medium without an intact copy is: blank, but for bytes of a marker that was being written, or not ours.
fn other<S: Medium>(medium: &mut S, mine: &Superblock) -> Result<State, S::Error> {
    let marker = mine.encode_marker(0);
    let mut last = [0];
    medium.read(medium.capacity() - 1, &mut last)?;
    let fill = last[0];
    let mut state = State::Blank;
    let (mut at, end) = (0, medium.capacity());
    while at < end {
        let mut b = [0; 32];
        let n = (end - at).min(32) as usize;
        let piece = &mut b[..n];
        medium.read(at, piece)?;
        for (i, &v) in piece.iter().enumerate() {
            let off = at as usize + i;
            if v == fill && matches!(fill, 0 | 0xFF) {
                continue;
            }
            if marker.get(off) != Some(&v) || !matches!(fill, 0 | 0xFF) {
                let magic = |c: [u8; COPY]| c.starts_with(b"RLM1");
                return Ok(if magic(copy(medium, 0)?) || magic(copy(medium, 1)?) {
                    State::Damaged
                } else {
                    State::Foreign
                });
            }
            state = State::Formatting;
        }
        at += n as u32;
    }
    Ok(state)
}

/// Writes a copy that becomes valid with its first byte, after everything that was written before.
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
    match newest(medium)? {
        Some((_, c)) if c.formatting && c.superblock.kind == mine.kind => Ok(()),
        Some((i, c)) => write(
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
    match newest(medium).map_err(failed)? {
        Some((i, c)) => {
            write(medium, 1 - i, &mine.encode(c.sequence.wrapping_add(1))).map_err(failed)
        }
        // The marker was written and read back before.
        None => Err(OpenError::Damaged(crate::error::Part::Header)),
    }
}
