//! Prints the content of a medium's image. Only reads; accepts any bytes.
//!
//! These functions print the formats of this crate. Other crates have printers for their formats.

use crate::crc::crc32;
use crate::layout::Layout;
use crate::record;
use crate::superblock::Superblock;
use core::fmt::{Result, Write};

/// Whether `bytes` begin with a superblock, intact or damaged.
pub fn is_superblock(bytes: &[u8]) -> bool {
    (0..2).any(|i| copy(bytes, i).is_some_and(|c| c.starts_with(b"RLM1")))
}

fn copy(bytes: &[u8], i: usize) -> Option<&[u8; Superblock::COPY_BYTES]> {
    bytes
        .get(i * Superblock::COPY_BYTES..)?
        .first_chunk::<{ Superblock::COPY_BYTES }>()
}

/// Prints the superblock at the start of a mapped region's image: both copies, and any damage.
///
/// **Errors**: those of `out`. Any bytes are accepted.
pub fn superblock(bytes: &[u8], out: &mut dyn Write) -> Result {
    let parsed = [0, 1].map(|i| copy(bytes, i).and_then(Superblock::decode));
    let newest = match parsed {
        [Some(a), Some(b)] => Some(usize::from(crate::sequence::is_newer_16(
            b.sequence, a.sequence,
        ))),
        [Some(_), None] => Some(0),
        [None, Some(_)] => Some(1),
        [None, None] => None,
    };
    match newest.and_then(|n| parsed[n]) {
        None if is_superblock(bytes) => writeln!(out, "superblock: DAMAGED, no copy is intact")?,
        None => return writeln!(out, "no superblock"),
        Some(c) if c.formatting => writeln!(
            out,
            "superblock: a format of \"{}\" was begun and cut",
            c.superblock.kind.escape_ascii()
        )?,
        Some(c) => writeln!(out, "superblock: {}", c.superblock.layout())?,
    }
    for (i, c) in parsed.iter().enumerate() {
        write!(out, "  copy {i} at {:#06x}: ", i * Superblock::COPY_BYTES)?;
        match c {
            None => writeln!(out, "not intact")?,
            Some(c) => {
                let age = if newest == Some(i) { "counts" } else { "older" };
                let state = if c.formatting { "formatting" } else { "ready" };
                write!(out, "sequence {}, {state}, {age}", c.sequence)?;
                write!(out, "; version {}, parameters", c.superblock.version)?;
                for p in c.superblock.params {
                    write!(out, " {p}")?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// Prints every record slot in an image, at any offset, and whether its checksum is correct.
///
/// `write_size` is the medium's program word; 1 if it has none. The checksum ends at a multiple of
/// it. **Errors**: those of `out`. Any bytes are accepted.
pub fn records(bytes: &[u8], write_size: usize, out: &mut dyn Write) -> Result {
    let mut any = false;
    let mut at = 0;
    while at < bytes.len() {
        let Some(slot) = record::inspect_slot(&bytes[at..], write_size.max(1)) else {
            at += 1;
            continue;
        };
        any = true;
        write!(out, "record slot at {at:#06x}: ")?;
        if slot.marker {
            write!(out, "a format was begun")?;
        } else {
            let layout: Layout = slot.layout;
            write!(
                out,
                "sequence {}, {layout}, {} bytes",
                slot.sequence, slot.len
            )?;
        }
        match slot.size {
            Some(size) => {
                writeln!(out, ", intact")?;
                at += size;
            }
            None => {
                writeln!(out, ", NOT intact")?;
                at += 1;
            }
        }
    }
    if !any {
        writeln!(out, "no record")?;
    }
    Ok(())
}

/// Whether an image holds a record slot, at any offset.
pub fn has_records(bytes: &[u8], write_size: usize) -> bool {
    (0..bytes.len()).any(|at| record::inspect_slot(&bytes[at..], write_size.max(1)).is_some())
}

/// The offsets and the words of the block headers of levelled flash, which have a right checksum.
fn level_headers(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8; 32])> {
    let header = |at: usize| Some((at, bytes.get(at..)?.first_chunk::<32>()?));
    let intact = |(_, b): &(usize, &[u8; 32])| {
        let (head, crc) = b.split_at(28);
        let known = matches!(b, [b'R', b'L', b'W', b'1'..=b'3', ..]);
        known && crc32(head).to_le_bytes() == *crc
    };
    (0..bytes.len())
        .step_by(4)
        .filter_map(header)
        .filter(intact)
}

/// Whether an image is one of levelled flash.
pub fn is_level(bytes: &[u8]) -> bool {
    level_headers(bytes).next().is_some()
}

/// Prints every block of levelled flash whose header is intact.
///
/// **Errors**: those of `out`. Any bytes are accepted.
pub fn level(bytes: &[u8], out: &mut dyn Write) -> Result {
    let number = |b: &[u8; 32], at| u16::from_le_bytes([b[at], b[at + 1]]);
    for (at, b) in level_headers(bytes) {
        write!(
            out,
            "levelled block at {at:#06x}: version {}, ",
            b[3] - b'0'
        )?;
        let sequence = u32::from(number(b, 4)) | u32::from(number(b, 6)) << 16;
        write!(out, "sequence {sequence}, ")?;
        let [page, slots, blocks] = [20, 22, 24].map(|at| number(b, at));
        writeln!(
            out,
            "pages of {page} bytes, {slots} slots, {blocks} blocks in all"
        )?;
    }
    Ok(())
}

/// Prints whether the image is blank, and how many bytes at its end are equal.
///
/// **Errors**: those of `out`. Any bytes are accepted.
pub fn blank(bytes: &[u8], out: &mut dyn Write) -> Result {
    let Some(last) = bytes.last() else {
        return writeln!(out, "no bytes");
    };
    let n = bytes.iter().rev().take_while(|b| *b == last).count();
    if n == bytes.len() && matches!(last, 0x00 | 0xFF) {
        writeln!(out, "blank: {n} bytes of {last:#04x}")
    } else {
        writeln!(out, "{} bytes, the last {n} are {last:#04x}", bytes.len())
    }
}
