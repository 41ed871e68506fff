//! Describes a dump of a medium for people: every image, or every record of a log, and whether it
//! is intact.

mod log;

pub use log::{has_log, log};

use crate::layout::{EXTENT, HEAD, MAGIC, PIECE, TRAILER, ZERO};
use core::fmt;
use nvmem::crc::Crc32;

/// Whether these bytes contain an image.
pub fn has_images(bytes: &[u8]) -> bool {
    heads(bytes).next().is_some()
}

/// Writes one line for each image in a dump, in the order of their offsets, and one for each of its
/// extents. `word` is the medium's program word in bytes.
///
/// **Errors**: those of `out`. Any bytes are accepted.
pub fn images(bytes: &[u8], word: u32, out: &mut impl fmt::Write) -> fmt::Result {
    for at in heads(bytes) {
        let image = bytes.get(at..).unwrap_or_default();
        let field = |i: usize| number(image, i);
        let (body, program) = (field(12), u64::from(field(16)) | u64::from(field(20)) << 32);
        write!(out, "image at {at:#06x}: sequence {}", field(4))?;
        if field(32) != 0 {
            write!(out, ", name {:#x}", field(32))?;
        }
        let state = if intact(image, body, word.clamp(1, PIECE as u32)) {
            "intact"
        } else {
            "not complete, or damaged"
        };
        writeln!(
            out,
            ", context {:#x}, program {program:#x}, {body} bytes, {state}",
            field(28)
        )?;
        let body = image.get(HEAD as usize..).unwrap_or_default();
        extents(body.get(..field(12) as usize).unwrap_or(body), out)?;
    }
    Ok(())
}

/// The offsets of heads: a magic number, a sequence number and its complement.
fn heads(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let is_head = |at: &usize| {
        bytes
            .get(*at..)
            .is_some_and(|b| b.starts_with(&MAGIC) && number(b, 4) == !number(b, 8))
    };
    (0..bytes.len()).filter(is_head)
}

/// The word at an offset; zero behind the end.
fn number(bytes: &[u8], at: usize) -> u32 {
    let b = bytes.get(at..).and_then(|b| b.first_chunk::<4>());
    b.map_or(0, |b| u32::from_le_bytes(*b))
}

/// Whether a matching trailer follows, at either of the two offsets that media use.
fn intact(image: &[u8], body: u32, word: u32) -> bool {
    let Some(content) = image.get(..(HEAD as usize).saturating_add(body as usize)) else {
        return false;
    };
    let crc = Crc32::new().bytes(content).finish();
    let head = content.get(..HEAD as usize).unwrap_or_default();
    let own = Crc32::new().bytes(head).word(crc).finish();
    let (end, word) = (content.len(), word as usize);
    let ends = [
        (end + TRAILER as usize).next_multiple_of(word),
        end.next_multiple_of(word) + (TRAILER as usize).next_multiple_of(word),
    ];
    ends.iter().any(|end| {
        let at = end - TRAILER as usize;
        image.len() >= *end && (number(image, at), number(image, at + 4)) == (crc, own)
    })
}

fn extents(mut body: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    while body.len() >= EXTENT as usize {
        let (at, len) = (number(body, 0), number(body, 4));
        let zero = len & ZERO != 0;
        let what = if zero { "zeros" } else { "bytes" };
        writeln!(out, "  memory {at:#06x}: {} {what}", len & !ZERO)?;
        let skip = if zero { 0 } else { len as usize };
        body = body.get(EXTENT as usize + skip..).unwrap_or_default();
    }
    Ok(())
}
