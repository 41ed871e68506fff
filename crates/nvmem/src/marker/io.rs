//! What [a marker](crate::marker) reads from and writes to a medium.

use super::Medium;
use crate::device::Torn;
use crate::marker::{Marker, PIECE, Progress, erased, marker_size};

/// [`Marker::write`].
pub fn write_marker<D: Medium>(medium: &mut D, marker: Marker) -> output!(Result<(), D::Error>) {
    steps!({
        for which in 0..2 {
            wait!(order(medium))?;
            wait!(write_word(medium, marker, which))?;
        }
        wait!(medium.flush())
    })
}

/// [`Marker::write_word`].
pub fn write_word<D: Medium>(
    medium: &mut D,
    marker: Marker,
    which: u32,
) -> output!(Result<(), D::Error>) {
    steps!({
        let size = const { marker_size(&D::CONTRACT) };
        wait!(repeat(medium, marker.at + which * size, marker.word(which)))
    })
}

/// [`Marker::progress`].
pub fn read_progress<D: Medium>(
    medium: &mut D,
    marker: Marker,
) -> output!(Result<Progress, D::Error>) {
    steps!({
        let first = wait!(word_progress(medium, marker, 0))?;
        if first != Progress::Marked {
            return Ok(first);
        }
        Ok(match wait!(word_progress(medium, marker, 1))? {
            Progress::Marked => Progress::Confirmed,
            Progress::Killed => Progress::Killed,
            _ => Progress::Marked,
        })
    })
}

/// [`Marker::word_progress`].
pub fn word_progress<D: Medium>(
    medium: &mut D,
    marker: Marker,
    which: u32,
) -> output!(Result<Progress, D::Error>) {
    steps!({
        let at = marker.at + which * const { marker_size(&D::CONTRACT) };
        let erased = const { erased(&D::CONTRACT) };
        let mut found = [0; 4];
        wait!(read(medium, at, &mut found))?;
        // If the first bytes read as written or killed, that program was begun.
        Ok(if found == marker.word(which) {
            Progress::Marked
        } else if found == [!erased; 4] {
            Progress::Killed
        } else if found == [erased; 4] && wait!(is_blank(medium, at))? {
            Progress::Blank
        } else {
            Progress::Begun
        })
    })
}

/// Programs every bit of the word at `at`, so that it reads as killed. Use it only where
/// [`Contract::overwrites`](crate::device::Contract::overwrites) is true.
///
/// **Power loss**: the word reads as before, as killed, or torn, and may read differently each
/// time. Kill it again. **Cost**: writes one word. **Errors**: the medium's.
pub fn kill<D: Medium>(medium: &mut D, at: u32) -> output!(Result<(), D::Error>) {
    steps!({
        wait!(repeat(medium, at, [!const { erased(&D::CONTRACT) }; 4]))?;
        wait!(medium.flush())
    })
}

/// Whether the word at `at` reads as blank.
///
/// **Errors**: the medium's.
pub fn is_blank<D: Medium>(medium: &mut D, at: u32) -> output!(Result<bool, D::Error>) {
    steps!({
        let size = const { marker_size(&D::CONTRACT) };
        wait!(all_bytes_are(
            medium,
            at,
            at + size,
            const { erased(&D::CONTRACT) }
        ))
    })
}

/// Makes all earlier writes durable before the later ones. Flushes only where the medium would
/// reorder them.
///
/// **Errors**: the medium's.
#[inline]
pub fn order<D: Medium>(medium: &mut D) -> output!(Result<(), D::Error>) {
    steps!({
        match D::CONTRACT.torn {
            Torn::Subset => wait!(medium.flush()),
            _ => Ok(()),
        }
    })
}

/// Writes a word that repeats these bytes.
fn repeat<D: Medium>(medium: &mut D, at: u32, bytes: [u8; 4]) -> output!(Result<(), D::Error>) {
    steps!({
        let size = const { marker_size(&D::CONTRACT) as usize };
        if size == 4 {
            return wait!(medium.write(at, &bytes));
        }
        let mut buf = [0; PIECE];
        for (to, from) in buf.iter_mut().zip(bytes.iter().cycle()) {
            *to = *from;
        }
        wait!(medium.write(at, buf.get(..size).unwrap_or_default()))
    })
}

/// Reads any bytes: rounds offset and length to the medium's read size.
///
/// **Cost**: reads the bytes, and up to one read size more at each end. **Errors**: the medium's.
pub fn read<D: Medium>(medium: &mut D, at: u32, out: &mut [u8]) -> output!(Result<(), D::Error>) {
    steps!({
        let size = D::CONTRACT.read_size;
        if size == 1 {
            return wait!(medium.read(at, out));
        }
        let most = const { PIECE as u32 / D::CONTRACT.read_size * D::CONTRACT.read_size };
        let mut buf = [0; PIECE];
        let mut at = at;
        let mut out = out;
        while !out.is_empty() {
            let skip = at % size;
            let n = ((most - skip) as usize).min(out.len());
            let window = (skip + n as u32).next_multiple_of(size) as usize;
            let window = buf.get_mut(..window).unwrap_or_default();
            wait!(medium.read(at - skip, window))?;
            let Some((now, later)) = out.split_at_mut_checked(n) else {
                break;
            };
            for (to, from) in now.iter_mut().zip(window.iter().skip(skip as usize)) {
                *to = *from;
            }
            (at, out) = (at + n as u32, later);
        }
        Ok(())
    })
}

/// Whether every byte of `from..to` reads as `byte`. Stops at the first that does not.
///
/// **Cost**: reads up to the whole range. **Errors**: the medium's.
pub fn all_bytes_are<D: Medium>(
    medium: &mut D,
    from: u32,
    to: u32,
    byte: u8,
) -> output!(Result<bool, D::Error>) {
    steps!({
        let most = const { PIECE as u32 / D::CONTRACT.read_size * D::CONTRACT.read_size };
        let mut buf = [0; PIECE];
        let mut at = from;
        while at < to {
            let n = (most - at % D::CONTRACT.read_size).min(to - at);
            let piece = buf.get_mut(..n as usize).unwrap_or_default();
            wait!(read(medium, at, piece))?;
            if piece.iter().any(|b| *b != byte) {
                return Ok(false);
            }
            at += n;
        }
        Ok(true)
    })
}
