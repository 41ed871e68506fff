//! Prints a mirror's log in an image of its range, and restores what it holds. Only reads; accepts
//! any bytes.

use crate::format::{
    Decoded, HEADER, Header, MAX_SEGMENTS, MAX_WORDS, Shape, Sizes, version_number,
};
use core::fmt::{Result, Write};
use core::ops::Range;
use nvmem::crc::Crc32;
use nvmem::device::{Contract, EraseUnit, Torn};
use nvmem::marker::{Marker, PIECE, marker_size};
use nvmem::sequence::is_newer;

/// Whether `bytes` begin with the range of a log: at least one of its segments has a header.
pub fn is_log(bytes: &[u8]) -> bool {
    shape(bytes).is_some()
}

/// The format version of a log that this version of the crate cannot read. `None` if there is no
/// header of another version.
pub fn other_version(bytes: &[u8]) -> Option<u16> {
    let mut all = headers(bytes).filter_map(|(_, found)| match found {
        Decoded::Other(version) => Some(version_number(version)),
        _ => None,
    });
    all.next()
}

/// The bytes of the region that the log holds, for [`log`]; 0 if it is none.
pub fn image_bytes(bytes: &[u8]) -> usize {
    shape(bytes).map_or(0, |shape| shape.image as usize)
}

/// Prints the segments of a log and their records. Fills `image` with what the next open finds
/// there, and returns whether it finds something.
///
/// Prints what a cut has left, and calls damaged what no cut leaves. **Errors**: those of `out`.
/// Any bytes are accepted.
pub fn log(
    bytes: &[u8],
    image: &mut [u8],
    out: &mut dyn Write,
) -> core::result::Result<bool, core::fmt::Error> {
    let Some(shape) = shape(bytes) else {
        writeln!(out, "no log of a mirror")?;
        return Ok(false);
    };
    let flash = is_flash(bytes, &shape);
    let Shape {
        image: size,
        segment,
        segments,
        word,
    } = shape;
    let kind = if flash { "flash" } else { "no erase" };
    writeln!(
        out,
        "mirror: {segments} segments of {segment} bytes, region of {size} bytes, words of {word} \
         bytes, {kind}"
    )?;
    let mut newest = None;
    let mut any = false;
    for s in 0..segments {
        let found = Segment::at(bytes, &shape, flash, s);
        any |= found.header.is_some();
        found.print(out)?;
        let older = |n: &Segment<'_>| is_newer(found.number(), n.number());
        if found.counts() && newest.as_ref().is_none_or(older) {
            newest = Some(found);
        }
    }
    let Some(newest) = newest else {
        let why = if any {
            "no segment that counts is intact"
        } else {
            "no segment"
        };
        writeln!(out, "DAMAGED, or cut in the first save: {why}")?;
        return Ok(false);
    };
    image.fill(0);
    let mut n = 0;
    newest.records(|record| {
        n += 1;
        record.apply(image);
        Ok(())
    })?;
    writeln!(
        out,
        "durable: segment number {}, base image and {} records",
        newest.number(),
        n - 1
    )?;
    Ok(true)
}

/// What may be headers: at any multiple of 4.
fn headers(bytes: &[u8]) -> impl Iterator<Item = (usize, Decoded)> {
    (0..bytes.len()).step_by(4).filter_map(|at| {
        let header = bytes.get(at..)?.first_chunk::<{ HEADER as usize }>()?;
        Some((at, Header::decode(header)))
    })
}

/// What the first header says that lies where its segment begins.
fn shape(bytes: &[u8]) -> Option<Shape> {
    let mut all = headers(bytes).filter_map(|(at, found)| {
        let Decoded::Header(Header { shape, .. }, _) = found else {
            return None;
        };
        let segment = shape.segment as usize;
        let all = segment.checked_mul(shape.segments.into())?;
        let possible = (2..=u16::from(MAX_SEGMENTS)).contains(&shape.segments)
            && all <= bytes.len()
            && segment >= HEADER as usize
            && at % segment == 0
            && at < all
            && shape.image % 4 == 0
            && shape.image as usize / 4 <= MAX_WORDS
            && (1..=PIECE).contains(&usize::from(shape.word))
            && PIECE.is_multiple_of(shape.word.into());
        possible.then_some(shape)
    });
    all.next()
}

/// A contract with this word. A log does not say more of its medium.
fn contract(word: u16, flash: bool) -> Contract {
    Contract {
        name: "image",
        read_size: 1,
        write_size: word.into(),
        unit: 1,
        torn: Torn::Arbitrary,
        erase: flash.then_some(EraseUnit {
            size: word.into(),
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
    }
}

/// Whether a segment has markers: on flash they lie before the base image.
fn is_flash(bytes: &[u8], shape: &Shape) -> bool {
    let mut all = (0..shape.segments).map(|s| Segment::at(bytes, shape, true, s));
    all.any(|s| s.marked > 0)
}

/// A segment.
struct Segment<'a> {
    bytes: &'a [u8],
    start: usize,
    words: usize,
    sizes: Sizes,
    flash: bool,
    /// If it is intact: the number, and its check.
    header: Option<(u32, u32)>,
    /// How many of the two markers read as written.
    marked: u8,
}

/// A record that is intact.
struct Record<'a> {
    /// From its first run to the end of its padding, in the segment.
    range: Range<usize>,
    /// Its runs.
    bytes: &'a [u8],
    runs: usize,
    words: usize,
}

/// Whether these bytes were never written.
fn is_blank(bytes: &[u8]) -> bool {
    [0, 0xFF].iter().any(|v| bytes.iter().all(|b| b == v))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let w = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*w))
}

/// The first word of a run, and how many it has.
fn run(word: u32) -> (usize, usize) {
    ((word & 0xFFFF) as usize, (word >> 16) as usize)
}

impl<'a> Segment<'a> {
    fn at(bytes: &'a [u8], shape: &Shape, flash: bool, s: u16) -> Self {
        let c = contract(shape.word, flash);
        let sizes = Sizes::of(&c);
        let start = usize::from(s) * shape.segment as usize;
        let bytes = bytes.get(start..start + shape.segment as usize);
        let bytes = bytes.unwrap_or_default();
        let header = bytes.first_chunk().map(Header::decode);
        let header = match header {
            Some(Decoded::Header(h, crc)) if h.shape == *shape => Some((h.number, crc)),
            _ => None,
        };
        let at = sizes.header;
        let written = |which: u32| {
            let checksum = header.map_or(0, |(_, crc)| crc);
            let place = (at + which * marker_size(&c)) as usize;
            let found = bytes.get(place..place + 4);
            header.is_some() && found == Some(&Marker { at, checksum }.word(which))
        };
        let marked = match (written(0), written(1)) {
            _ if !flash => 0,
            (true, second) => 1 + u8::from(second),
            _ => 0,
        };
        Segment {
            bytes,
            start,
            words: shape.image as usize / 4,
            sizes,
            flash,
            header,
            marked,
        }
    }

    fn number(&self) -> u32 {
        self.header.map_or(0, |(number, _)| number)
    }

    /// Whether an open may use it: it is complete, and has a base image.
    fn counts(&self) -> bool {
        let complete = self.header.is_some() && (!self.flash || self.marked > 0);
        let crc = self.header.map_or(0, |(_, crc)| crc);
        complete && self.record(self.sizes.base as usize, crc).is_some()
    }

    /// The record at an offset, after one with this check; and its own check.
    fn record(&self, from: usize, check: u32) -> Option<(Record<'a>, u32)> {
        let mut crc = Crc32::new().word(check);
        let (mut at, mut runs, mut words, mut end) = (from, 0, 0, 0);
        loop {
            let w = word(self.bytes, at)?;
            crc = crc.word(w);
            at += 4;
            let (start, len) = run(w);
            if len == 0 {
                let check = crc.finish();
                let intact = w == 0 && word(self.bytes, at)? == check;
                let padded = self.sizes.padded((at + 4 - from) as u32) as usize;
                let record = Record {
                    range: from..from + padded,
                    bytes: self.bytes.get(from..at - 4)?,
                    runs,
                    words,
                };
                return intact.then_some((record, check));
            }
            if start < end || start + len > self.words {
                return None;
            }
            for _ in 0..len {
                crc = crc.word(word(self.bytes, at)?);
                at += 4;
            }
            (runs, words, end) = (runs + 1, words + len, start + len);
        }
    }

    /// Calls `visit` with the base image and each record, in order. Returns where they end.
    fn records(
        &self,
        mut visit: impl FnMut(Record<'a>) -> Result,
    ) -> core::result::Result<usize, core::fmt::Error> {
        let mut at = self.sizes.base as usize;
        let Some((_, mut check)) = self.header else {
            return Ok(at);
        };
        while let Some((record, next)) = self.record(at, check) {
            (at, check) = (record.range.end, next);
            visit(record)?;
        }
        Ok(at)
    }

    fn print(&self, out: &mut dyn Write) -> Result {
        let start = self.start;
        write!(out, "  segment at {start:#06x}: ")?;
        let Some((number, _)) = self.header else {
            let what = if is_blank(self.bytes) {
                "blank"
            } else {
                "no header: cut, or not written yet"
            };
            return writeln!(out, "{what}");
        };
        let state = match self.marked {
            _ if !self.flash => "complete",
            0 => "no marker, was cut",
            1 => "marked, not confirmed",
            _ => "confirmed",
        };
        writeln!(out, "number {number}, {state}")?;
        let mut name = "base image";
        let end = self.records(|record| {
            let Record {
                range, runs, words, ..
            } = record;
            let at = start + range.start;
            writeln!(out, "    {name} at {at:#06x}: {runs} runs, {words} words")?;
            name = "record";
            Ok(())
        })?;
        let complete = !self.flash || self.marked > 0;
        if name == "base image" && complete {
            writeln!(out, "    DAMAGED: the base image is not intact")?;
        }
        let rest = self.bytes.get(end..).unwrap_or_default();
        let at = start + end;
        let what = match (is_blank(rest), self.flash) {
            (true, _) => "free",
            (false, true) => "a record that was cut, or damage",
            (false, false) => "free, with bytes of older records or one that was cut",
        };
        writeln!(out, "    {at:#06x}: {} bytes {what}", rest.len())
    }
}

impl Record<'_> {
    /// Writes its words to the image.
    fn apply(&self, image: &mut [u8]) {
        let mut at = 0;
        while let Some(w) = word(self.bytes, at) {
            let (start, len) = run(w);
            at += 4;
            let from = self.bytes.get(at..at + 4 * len);
            let to = image.get_mut(4 * start..4 * (start + len));
            if let (Some(to), Some(from)) = (to, from) {
                to.copy_from_slice(from);
            }
            at += 4 * len;
        }
    }
}
