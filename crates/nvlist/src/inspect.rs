//! Prints the content of a node pool's image behind its superblock. Only reads; accepts any bytes.

use crate::layout::{FREE, Geometry, KIND, LINKS, RECORD, Stride, VERSION, param};
use crate::map::LinkMap;
use core::fmt::{Result, Write};
use nvmem::{InOrder16, InOrder32, Model, Superblock, Unit};

/// Whether this superblock belongs to a node pool that [`lists`] can print.
pub fn is_lists(sb: &Superblock) -> bool {
    sb.kind == KIND && sb.version == VERSION
}

/// Prints the record that is set, each list from its head, and any damage.
///
/// `sb` is the valid superblock in `bytes`. `bytes` is the region's whole image from a
/// little-endian target. **Errors**: those of `out`. Any bytes are accepted.
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
    let geo = match Geometry::new::<M>(bytes.len(), lists, contexts, Stride::new::<M>(size)) {
        Ok(g) if g.params::<M>(bytes.len()) == sb.params => g,
        _ => {
            return writeln!(
                out,
                "node pool: DAMAGED parameters, or not the whole region"
            );
        }
    };
    let (unit, shift) = (M::Unit::BYTES, Geometry::shift::<M>());
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
        (geo.stride.places << shift) - LINKS
    )?;
    let mut record = |name: &dyn core::fmt::Display, off: usize| match word(off) {
        0 => Ok(()),
        w => match LinkMap::<M>::parse_record(w) {
            Some((x, kind)) => writeln!(out, "  record {name}: {kind:?} {:#06x}", x << shift),
            None => writeln!(out, "  record {name}: DAMAGED {w:#x}"),
        },
    };
    record(&"of the last operation", RECORD)?;
    for ctx in 0..contexts {
        let (number, at) = geo.context::<M>(ctx);
        record(
            &format_args!("of context {ctx}, number {}", word(number)),
            at,
        )?;
    }
    for i in 0..lists {
        let head = LinkMap::<M>::head(i);
        write!(out, "  list {i}:")?;
        let mut at = head;
        for steps in 0.. {
            let (_, next) = pair(at << shift);
            let node = geo.is_node(next);
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
    let nodes = (geo.first..geo.end).step_by(geo.stride.places);
    let free = nodes.filter(|x| pair(x << shift).0 == FREE);
    writeln!(out, "  {} nodes free", free.count())
}
