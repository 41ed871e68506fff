//! Prints the content of a medium's image. Only reads; accepts any bytes.
//!
//! These functions print the formats of this crate. Other crates have printers for their formats.

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
/// it.
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

/// Prints whether the image is blank, and how many bytes at its end are equal.
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
