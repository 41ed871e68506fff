//! Describes a dump of a medium for people: every image, or every record of a log, and whether it
//! is intact.

use crate::format::{EXTENT, HEAD, MAGIC, PIECE, TRAILER, ZERO};
use crate::images::later;
use crate::log::format::{self as cells, CellPlace, FRAME, MANIFESTS, NONE, RECORD, Runs, SLOTS};
use crate::log::record::{self, Record};
use core::fmt;
use nvmem::crc::{Crc32, crc32};

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

/// Whether these bytes contain a record of a log. `word` is the medium's program word.
pub fn has_log(bytes: &[u8], word: u32) -> bool {
    slots(bytes, word).next().is_some()
}

/// Writes one line for each record in a dump, in the order of their offsets. Then it writes the
/// place of each cell of memory according to the newest record, and whether the cell is intact.
/// `word` is the medium's program word in bytes. Where units begin depends on the erase unit's
/// size. It is found by trying all sizes: the one with the most intact cells is taken.
///
/// **Errors**: those of `out`. Any bytes are accepted.
pub fn log(bytes: &[u8], word: u32, out: &mut impl fmt::Write) -> fmt::Result {
    let mut newest: Option<(usize, Record)> = None;
    for at in slots(bytes, word) {
        let slot = bytes.get(at..).unwrap_or_default();
        let Some(r) = Record::decode(slot) else {
            writeln!(out, "record at {at:#06x}: not complete, or damaged")?;
            continue;
        };
        let [low, high] = r.program().map(u64::from);
        write!(
            out,
            "record at {at:#06x}: number {}, base {}, sequence {}, context {:#x}, program {:#x}, {} manifests",
            r.number(),
            r.base(),
            r.sequence(),
            r.context(),
            low | high << 32,
            r.manifests()
        )?;
        if r.is_copy() {
            let marked = number(slot, step(word)) == u32::from_le_bytes(r.marker(0).word(0));
            out.write_str(if marked {
                ", a copy with its marker"
            } else {
                ", a copy without a marker"
            })?;
        }
        writeln!(out)?;
        if newest.is_none_or(|(_, n)| later(r.number(), n.number())) {
            newest = Some((at, r));
        }
    }
    let Some((at, r)) = newest else {
        return Ok(());
    };
    let whole = geometries(word, r.cell()).map(|shape| Dump {
        bytes,
        at,
        r,
        shape,
    });
    // Among equals the first.
    let best = whole.reduce(|a, b| if b.intact() > a.intact() { b } else { a });
    match best {
        Some(dump) => dump.show(out),
        None => writeln!(out, "cells of {} bytes: not a log's", r.cell()),
    }
}

/// Bytes from one record to the next.
fn step(word: u32) -> usize {
    RECORD.next_multiple_of(word.clamp(1, PIECE as u32)) as usize
}

fn slots(bytes: &[u8], word: u32) -> impl Iterator<Item = usize> + '_ {
    let all = (0..bytes.len()).step_by(step(word));
    all.filter(|at| {
        bytes
            .get(*at..)
            .is_some_and(|b| b.starts_with(&record::MAGIC))
    })
}

/// One possible geometry of a log.
#[derive(Clone, Copy)]
struct Geometry {
    cell: u32,
    front: u32,
    unit: u32,
    per: u32,
}

/// All geometries that a medium may have.
fn geometries(word: u32, cell: u32) -> impl Iterator<Item = Geometry> {
    let record = step(word) as u32;
    let known = (32..=1 << 12).contains(&cell);
    let plain = Geometry {
        cell,
        front: 2 * record,
        unit: 8 * cell,
        per: 8,
    };
    let erased = (4..18).flat_map(move |k| {
        let erase = 1u32 << k;
        let anchor = (2 * record).next_multiple_of(erase);
        let unit = cell.next_multiple_of(erase);
        let many = if anchor <= 512 { 8 } else { 4 };
        [many, 2].map(|anchors| Geometry {
            cell,
            front: anchors * anchor,
            unit,
            per: (unit / cell.max(1)).min(254),
        })
    });
    core::iter::once(plain).chain(erased).filter(move |_| known)
}

/// A dump, the record to show, and an assumed geometry.
#[derive(Clone, Copy)]
struct Dump<'b> {
    bytes: &'b [u8],
    at: usize,
    r: Record,
    shape: Geometry,
}

impl<'b> Dump<'b> {
    fn address(&self, place: u16) -> usize {
        let (s, p) = (&self.shape, u32::from(place));
        (s.front + p / s.per * s.unit + p % s.per * s.cell) as usize
    }

    fn cell(&self, place: u16) -> Option<&'b [u8]> {
        let at = self.address(place);
        self.bytes
            .get(at..at.saturating_add(self.shape.cell as usize))
    }

    fn is_intact(&self, p: &CellPlace) -> bool {
        u32::from(p.place) >= SLOTS
            || self
                .cell(p.place)
                .is_some_and(|c| cells::check(c) == p.check)
    }

    /// The runs of a manifest, and the place of the manifest before it.
    fn manifest(&self, place: u16) -> Option<(&'b [u8], u16)> {
        let (content, crc) = self.cell(place)?.split_last_chunk::<4>()?;
        let before = number(content, 0) as u16;
        let len = (number(content, 0) >> 16) as usize;
        let runs = content.get(4..4 + len)?;
        let sound = crc32(content).to_le_bytes() == *crc
            && len <= self.shape.cell as usize - FRAME as usize;
        sound.then_some((runs, before))
    }

    /// Visits all runs, the newest first. `each` gets the manifest's place, or `NONE` for the
    /// record's own runs. `false` if a manifest is damaged.
    fn visit_runs(
        &self,
        mut each: impl FnMut(u16, &'b [u8]) -> fmt::Result,
    ) -> Result<bool, fmt::Error> {
        let own = self.at + record::HEAD..self.at + record::HEAD + self.r.places();
        each(NONE, self.bytes.get(own).unwrap_or_default())?;
        let mut place = self.r.manifest();
        for _ in 0..self.r.manifests().min(MANIFESTS) {
            let Some((runs, before)) = self.manifest(place) else {
                return Ok(false);
            };
            each(place, runs)?;
            place = before;
        }
        Ok(true)
    }

    /// The number of intact manifests and of intact cells in the record's own runs.
    fn intact(&self) -> usize {
        let mut n = 0;
        let _ = self.visit_runs(|place, runs| {
            n += 1;
            if place == NONE {
                n += Runs::new(runs)
                    .filter(|p| u32::from(p.place) < SLOTS && self.is_intact(p))
                    .count();
            }
            Ok(())
        });
        n
    }

    fn show(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let s = &self.shape;
        writeln!(
            out,
            "newest: the record at {:#06x}, cells of {} bytes from {:#06x} on",
            self.at, s.cell, s.front
        )?;
        writeln!(
            out,
            "  heap in use: {} bytes, stack in use: from {:#x} on",
            self.r.heap_used(),
            self.r.stack_from()
        )?;
        // One bit for each cell: a newer entry was seen.
        let mut seen = [0u32; 1 << 10];
        let all = self.visit_runs(|place, runs| {
            if place != NONE {
                writeln!(out, "  manifest at {:#06x}", self.address(place))?;
            }
            let mut line: Option<Line> = None;
            for p in Runs::new(runs) {
                let bit = 1 << (p.cell % 32);
                let Some(word) = seen.get_mut(usize::from(p.cell / 32) % (1 << 10)) else {
                    continue;
                };
                if *word & bit != 0 {
                    continue;
                }
                *word |= bit;
                let next = Line::new(&p, self.is_intact(&p));
                match &mut line {
                    Some(l) if l.continues_with(&next) => l.last = p.cell,
                    _ => {
                        self.line(line.replace(next), out)?;
                    }
                }
            }
            self.line(line, out)
        })?;
        if !all {
            writeln!(out, "  a manifest is damaged, and older ones are not known")?;
        }
        Ok(())
    }

    fn line(&self, line: Option<Line>, out: &mut impl fmt::Write) -> fmt::Result {
        let Some(l) = line else { return Ok(()) };
        match l.last {
            last if last == l.first => write!(out, "  cell {last}: ")?,
            last => write!(out, "  cells {} to {last}: ", l.first)?,
        }
        match l.place {
            NONE => out.write_str("not saved")?,
            cells::ZERO => out.write_str("zero")?,
            p => write!(out, "at {:#06x}", self.address(p))?,
        }
        writeln!(out, "{}", if l.intact { "" } else { ", DAMAGED" })
    }
}

/// Cells that one line describes.
struct Line {
    first: u16,
    last: u16,
    place: u16,
    intact: bool,
}

impl Line {
    fn new(p: &CellPlace, intact: bool) -> Self {
        Line {
            first: p.cell,
            last: p.cell,
            place: p.place,
            intact,
        }
    }

    fn continues_with(&self, next: &Line) -> bool {
        let n = self.last.wrapping_sub(self.first).wrapping_add(1);
        let place = if u32::from(self.place) < SLOTS {
            self.place.wrapping_add(n)
        } else {
            self.place
        };
        next.first == self.last.wrapping_add(1) && next.place == place && next.intact == self.intact
    }
}
