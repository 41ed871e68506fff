//! Prints what an image of a node pool holds, behind its superblock. Only reads, and survives any bytes.

use crate::layout::{FREE, Geometry, KIND, LINKS, VERSION, param};
use crate::state::Core;
use core::fmt::{Result, Write};
use nvmem::{InOrder16, InOrder32, Model, Superblock, Unit};

/// Whether this superblock is that of a node pool that [`lists`] can print.
pub fn is_lists(sb: &Superblock) -> bool {
    sb.kind == KIND && sb.version == VERSION
}

/// Prints the record that is set, each list from its head, and any damage.
///
/// `sb` is the superblock that counts in `bytes`, the region's whole image from a target of little-endian order.
pub fn lists(sb: &Superblock, bytes: &[u8], out: &mut dyn Write) -> Result {
    match sb.params[param::UNIT] {
        2 => print::<InOrder16>(sb, bytes, out),
        4 => print::<InOrder32>(sb, bytes, out),
        _ => writeln!(out, "node pool: DAMAGED parameters"),
    }
}

fn print<M: Model>(sb: &Superblock, bytes: &[u8], out: &mut dyn Write) -> Result {
    let p = sb.params.map(|p| usize::try_from(p).unwrap_or(usize::MAX));
    let (lists, contexts) = (p[param::LISTS], p[param::CONTEXTS]);
    let size = p[param::STRIDE].wrapping_sub(LINKS);
    let geo = match Geometry::new::<M>(bytes.len(), lists, contexts, size) {
        Ok(g) if g.params::<M>(bytes.len()) == sb.params => g,
        _ => {
            return writeln!(
                out,
                "node pool: DAMAGED parameters, or not the whole region"
            );
        }
    };
    let unit = M::Unit::BYTES;
    let word = |off: usize| -> usize {
        let b = bytes.get(off..off + unit).unwrap_or(&[]);
        b.iter().rev().fold(0, |w, b| w << 8 | usize::from(*b))
    };
    let pair = |off: usize| match unit {
        4 => (word(off) & 0xffff, word(off + 2) & 0xffff),
        _ => (word(off), word(off + 2)),
    };
    writeln!(
        out,
        "node pool: {lists} lists, {} nodes of {} bytes, {contexts} contexts, units of {unit} bytes",
        geo.nodes,
        geo.stride - LINKS
    )?;
    let shift = Geometry::shift::<M>();
    let mut record = |name: &dyn core::fmt::Display, off: usize| match word(off) {
        0 => Ok(()),
        w => match Core::<M>::parse(w) {
            Some((x, kind)) => writeln!(out, "  record {name}: {kind:?} {:#06x}", x << shift),
            None => writeln!(out, "  record {name}: DAMAGED {w:#x}"),
        },
    };
    record(&"of the last operation", geo.record)?;
    for ctx in 0..contexts {
        let at = geo.staged + ctx * 2 * unit;
        record(
            &format_args!("of context {ctx}, number {}", word(at)),
            at + unit,
        )?;
    }
    for i in 0..lists {
        let head = (geo.heads + i * LINKS) >> shift;
        write!(out, "  list {i}:")?;
        let mut at = head;
        for steps in 0.. {
            let (_, next) = pair(at << shift);
            let off = (next << shift).wrapping_sub(geo.first);
            let node = off.is_multiple_of(geo.stride) && off < geo.nodes * geo.stride;
            if next != head && (!node || steps == geo.nodes) {
                write!(out, " DAMAGED: leads to {:#06x}", next << shift)?;
                break;
            }
            if pair(next << shift).0 != at {
                write!(out, " (not answered)")?;
            }
            if next == head {
                break;
            }
            write!(out, " {:#06x}", (next << shift) + LINKS)?;
            at = next;
        }
        writeln!(out)?;
    }
    let free = (0..geo.nodes).filter(|i| pair(geo.first + i * geo.stride).0 == FREE);
    writeln!(out, "  {} nodes free", free.count())
}
