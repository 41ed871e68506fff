//! Prints the region of a program's devices without the program that wrote it. Only reads; accepts
//! any bytes.

use crate::open::{DESCRIPTIONS, Described, KIND, UNIT, VERSION};
use core::fmt::{Display, Formatter, Result, Write};
use nv_replay::nvmem::Superblock;

/// Whether this superblock belongs to contexts that [`contexts`] can print.
pub fn is_contexts(sb: &Superblock) -> bool {
    sb.kind == KIND && sb.version == VERSION
}

/// Some bytes of the image; those that it does not have are 0.
struct Bytes<'b> {
    all: &'b [u8],
    at: usize,
    len: usize,
}

impl Bytes<'_> {
    fn number(&self) -> u64 {
        let end = self.at.saturating_add(self.len);
        let b = self.all.get(self.at..end).unwrap_or(&[]);
        b.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
    }
}

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.len == 0 {
            return f.write_str("empty");
        }
        for i in 0..self.len {
            let at = self.at.saturating_add(i);
            let byte = self.all.get(at).copied().unwrap_or(0);
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// The part of a region that is printed next.
struct Reader<'b> {
    bytes: &'b [u8],
    unit: usize,
    at: usize,
}

/// The bytes of a context's word.
const WORD: usize = 8;

impl<'b> Reader<'b> {
    fn part(&self, off: usize, len: usize) -> Bytes<'b> {
        let at = self.at.saturating_add(off);
        let all = self.bytes;
        Bytes { all, at, len }
    }

    /// The versions of a value of so many bytes, and what they take.
    fn version(&self, which: u64, size: usize) -> Bytes<'b> {
        let stride = size.next_multiple_of(self.unit);
        self.part(WORD + stride * (which & 1) as usize, size)
    }

    /// Skips an item.
    fn skip(&mut self, versions_of: Option<usize>) {
        let versions = versions_of.map_or(0, |size| 2 * size.next_multiple_of(self.unit));
        self.at = self
            .at
            .saturating_add((WORD + versions).next_multiple_of(8));
    }

    fn own(&mut self, size: usize, out: &mut dyn Write) -> Result {
        write!(out, "own context, {size} B: ")?;
        if size <= self.unit {
            writeln!(out, "{}", self.part(0, size))?;
            self.skip(None);
            return Ok(());
        }
        let word = self.part(0, self.unit).number();
        writeln!(out, "{}", self.version(word, size))?;
        self.skip(Some(size));
        Ok(())
    }

    /// The value of a staged context.
    fn staged(&mut self, size: usize, out: &mut dyn Write) -> Result {
        let word = self.part(0, self.unit).number();
        let (versions, before, after, number) = if size == 0 {
            (None, self.part(0, 0), self.part(0, 0), 0)
        } else if size == 1 && self.unit >= 4 {
            // Its states are in the word.
            (None, self.part(1, 1), self.part(0, 1), word >> 16)
        } else {
            let version = |n: u64| self.version(n, size);
            (Some(size), version(word >> 1), version(word), word >> 2)
        };
        match number {
            0 => writeln!(out, "{after}")?,
            n => writeln!(out, "{before}, then {after} by the step of number {n}")?,
        }
        self.skip(versions);
        Ok(())
    }

    fn ring(&mut self, slots: usize, out: &mut dyn Write) -> Result {
        writeln!(out, "events of a ring of {slots}")?;
        let bits = if self.unit >= 4 { 24 } else { 8 };
        for slot in 0..slots {
            let word = self.part(slot * self.unit, self.unit).number();
            let (number, value) = (word >> bits, word & ((1 << bits) - 1));
            if number & 0x80 != 0 {
                writeln!(out, "    slot {slot}: number {}, {value}", number & 0x7F)?;
            }
        }
        self.at = self
            .at
            .saturating_add((slots * self.unit).next_multiple_of(8));
        writeln!(out, "    lost: {}", self.part(0, self.unit).number())?;
        self.at = self.at.saturating_add(8);
        out.write_str("    position, and losses that were told: ")?;
        self.staged(2, out)
    }
}

/// Prints the context of each item, its bytes in order. What a step has staged and no open or
/// commit has settled is printed with the number of that step: only the program's table says
/// whether it has committed. Of a ring it prints the events of all slots, handled ones too: those
/// wait whose numbers follow the position.
///
/// `sb` is the valid superblock in `bytes`. `bytes` is the region's whole image from a
/// little-endian target. **Errors**: those of `out`. Any bytes are accepted.
pub fn contexts(sb: &Superblock, bytes: &[u8], out: &mut dyn Write) -> Result {
    let unit = sb.params[UNIT];
    writeln!(out, "device contexts, units of {unit} bytes")?;
    if !matches!(unit, 2 | 4) {
        return writeln!(out, "  DAMAGED parameters");
    }
    let mut reader = Reader {
        bytes,
        unit: unit as usize,
        at: Superblock::BYTES,
    };
    for index in 0..2 * DESCRIPTIONS.len() {
        let Some(item) = Described::of(&sb.params, index) else {
            break;
        };
        if reader.at >= bytes.len() {
            return writeln!(
                out,
                "  item {index}: DAMAGED parameters, or not the whole region"
            );
        }
        write!(out, "  item {index}: ")?;
        match item {
            Described::Own(size) => reader.own(size, out)?,
            Described::Staged(size) => {
                write!(out, "staged context, {size} B: ")?;
                reader.staged(size, out)?;
            }
            Described::Ring(slots) => reader.ring(slots, out)?,
            Described::Large => return writeln!(out, "a context too large to be described"),
        }
    }
    Ok(())
}
