//! Prints what an image of a heap holds. Only reads, and accepts any bytes.

use super::check::Check;
use super::commit::{self, Record};
use super::image::{APPLIED, BlockHeader, Entry, Geometry, RECORD_STRIDE, RECORDS, units_of};
use super::open::{KIND, SNAPSHOT};
use super::{BLOCK_HEADER, FREED, LOST, MAX_LEN};
use core::fmt::{Result, Write};
use nvmem::superblock::{Stored, Superblock};

/// The valid superblock, if the image begins with one of a heap.
fn superblock(bytes: &[u8]) -> Option<Superblock> {
    let copy = |i: usize| -> Option<Stored> {
        let b = bytes.get(i * Superblock::COPY_BYTES..)?;
        Superblock::decode(b.first_chunk()?).filter(|s| s.superblock.kind == KIND)
    };
    let newest = match [copy(0), copy(1)] {
        [Some(a), Some(b)] => {
            if (b.sequence.wrapping_sub(a.sequence) as i16) > 0 {
                b
            } else {
                a
            }
        }
        [a, b] => a.or(b)?,
    };
    (!newest.formatting).then_some(newest.superblock)
}

/// Whether `bytes` begin with the superblock of a heap.
pub fn is_heap(bytes: &[u8]) -> bool {
    superblock(bytes).is_some()
}

fn array<const N: usize>(bytes: &[u8], at: u32) -> Option<[u8; N]> {
    bytes
        .get(usize::try_from(at).ok()?..)?
        .first_chunk::<N>()
        .copied()
}

/// Prints the superblock, the records, and for each object its address, length, and whether its
/// check is right.
///
/// **Errors**: those of `out`. Any bytes are accepted.
pub fn heap(bytes: &[u8], out: &mut dyn Write) -> Result {
    nvmem::inspect::superblock(bytes, out)?;
    let Some(sb) = superblock(bytes) else {
        return writeln!(out, "no heap");
    };
    let snapshot = sb.version & SNAPSHOT != 0;
    let promise = if snapshot { "snapshot" } else { "just in time" };
    let Some(map) = Geometry::of_params(&sb.params) else {
        return writeln!(out, "heap: DAMAGED, its sizes make no sense");
    };
    writeln!(
        out,
        "heap: {promise}, {} objects, {} units of 8 bytes at {:#x}, {} pins, {} bytes in all",
        map.objects,
        map.units,
        map.unit(1),
        map.pins(),
        map.end()
    )?;
    let state = records(bytes, out)?;
    let mut used = 0u32;
    for id in 1..=map.objects {
        let Some(e) = map.entry(id).and_then(|at| array::<4>(bytes, at)) else {
            return writeln!(out, "the image ends within the table");
        };
        let e = Entry::decode(u32::from_ne_bytes(e));
        if e == Entry::FREE {
            continue;
        }
        used += 1;
        write!(out, "object {id}: ")?;
        let unit = match state {
            State::Late => e.pending(),
            State::Committed => e.committed(),
            _ if e.is_settled() => e.pending(),
            _ => {
                writeln!(out, "DAMAGED, its entry names two units")?;
                continue;
            }
        };
        if e.is_settled() && unit == LOST {
            writeln!(out, "lost: an open found that it was damaged")?;
            continue;
        }
        if unit == 0 {
            write!(out, "not committed")?;
        } else if unit >= FREED {
            write!(out, "freed")?;
        } else {
            object(bytes, &map, id, unit, state, out)?;
        }
        match e.pending() {
            _ if e.is_settled() || state != State::Committed => writeln!(out)?,
            FREED.. => writeln!(out, "; then freed, not committed")?,
            unit => writeln!(out, "; then in unit {unit}, not committed")?,
        }
    }
    writeln!(out, "{used} objects")
}

/// Which contents count, by the records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Just in time: saved.
    Saved,
    /// Just in time: not saved. Open refuses it.
    Running,
    /// Snapshot: the committed units.
    Committed,
    /// Snapshot: the current units, as the table is behind.
    Late,
}

fn records(bytes: &[u8], out: &mut dyn Write) -> core::result::Result<State, core::fmt::Error> {
    let both = [0, 1].map(|i| {
        let b = array::<12>(bytes, RECORDS + i * RECORD_STRIDE)?;
        let mut words = [0; 3];
        for (word, from) in words.iter_mut().zip(b.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*from);
        }
        Record::of_words(&words)
    });
    let newest = match both {
        [Some(a), Some(b)] => Some(if b.is_later_than(a.seq) { b } else { a }),
        [a, b] => a.or(b),
    };
    for (i, r) in both.iter().enumerate() {
        match r {
            None => writeln!(out, "record {i}: not intact")?,
            Some(r) => {
                let state = match r.state {
                    commit::RUNNING => "running",
                    commit::PERSISTED => "persisted",
                    _ => "committed",
                };
                let age = if newest == Some(*r) {
                    "counts"
                } else {
                    "older"
                };
                writeln!(
                    out,
                    "record {i}: number {}, {state}, {} pins, {age}",
                    r.seq, r.pins
                )?;
            }
        }
    }
    let applied = array(bytes, APPLIED).map(u32::from_le_bytes);
    Ok(match newest {
        Some(r) if r.state == commit::COMMITTED => {
            if applied == Some(commit::applied_word(r.seq)) {
                State::Committed
            } else {
                writeln!(
                    out,
                    "the table is behind: the next open finishes the commit"
                )?;
                State::Late
            }
        }
        Some(r) if r.state == commit::RUNNING => {
            writeln!(out, "not saved: what was changed last may be missing")?;
            State::Running
        }
        _ => State::Saved,
    })
}

fn object(
    bytes: &[u8],
    map: &Geometry,
    id: u16,
    unit: u16,
    state: State,
    out: &mut dyn Write,
) -> Result {
    let head = map
        .has(unit, 1)
        .then(|| array::<8>(bytes, map.unit(unit)))
        .flatten()
        .map(BlockHeader::decode);
    let Some(head) = head else {
        return write!(out, "DAMAGED, there is no unit {unit}");
    };
    let content = |len: u16| {
        let at = usize::try_from(map.unit(unit) + BLOCK_HEADER).ok()?;
        bytes.get(at..)?.get(..usize::from(len))
    };
    write!(out, "unit {unit} at {:#x}, ", map.unit(unit))?;
    if head.id != id || head.len > MAX_LEN || !map.has(unit, units_of(head.len)) {
        return write!(out, "DAMAGED, its header is another one's");
    }
    let Some(content) = content(head.len) else {
        return write!(out, "the image ends within it");
    };
    let mut check = Check::new(id, head.len);
    let empty = check.finish();
    check.add(content);
    let said = match head.check {
        c if c == check.finish() => "intact",
        c if c == empty => "no content yet",
        _ if state == State::Running => "not saved",
        _ => "NOT intact",
    };
    write!(out, "{} bytes, {said}", head.len)
}
