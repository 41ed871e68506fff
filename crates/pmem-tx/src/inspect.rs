//! Prints the content of a pool's image behind its superblock. Only reads; accepts any bytes.

use crate::layout::{
    Block, BlockKind, Geometry, KIND, Tag, Undo, param, stored_config, stored_count,
};
use core::fmt::{Result, Write};
use nvmem::{InOrder16, InOrder32, Superblock};

/// A region's bytes, and its units.
struct Image<'b> {
    bytes: &'b [u8],
    unit: usize,
}

impl Image<'_> {
    fn word(&self, off: usize) -> Option<usize> {
        let b = self.bytes.get(off..off + self.unit)?;
        Some(b.iter().rev().fold(0, |w, b| w << 8 | *b as usize))
    }
}

/// Whether this superblock belongs to a pool that [`pool`] can print.
pub fn is_pool(sb: &Superblock) -> bool {
    sb.kind == KIND && stored_count(sb).is_some()
}

/// Prints the contexts, the valid entries of their journals, the blocks, and any damage.
///
/// `sb` is the valid superblock in `bytes`. `bytes` is the region's whole image from a
/// little-endian target. **Errors**: those of `out`. Any bytes are accepted.
pub fn pool(sb: &Superblock, bytes: &[u8], out: &mut dyn Write) -> Result {
    let unit = sb.params[param::UNIT] as usize;
    let Some(count) = stored_count(sb) else {
        return writeln!(out, "pool: DAMAGED parameters");
    };
    let contexts = count.contexts;
    let geo = match (stored_config(sb), unit) {
        (Some(c), 2) => Geometry::new::<InOrder16>(&c, count, bytes.len()),
        (Some(c), 4) => Geometry::new::<InOrder32>(&c, count, bytes.len()),
        _ => return writeln!(out, "pool: DAMAGED parameters"),
    };
    let formatted = sb.params[param::LEN] as usize;
    if formatted != bytes.len() {
        writeln!(
            out,
            "pool: formatted for {formatted} bytes, the image has {}",
            bytes.len()
        )?;
    }
    let Ok(geo) = geo else {
        return writeln!(out, "pool: DAMAGED parameters");
    };
    let image = Image { bytes, unit };
    writeln!(
        out,
        "pool: {contexts} contexts, units of {unit} bytes, journals of {} entries and {} bytes, sequence numbers up to {}",
        geo.entries, geo.bytes, geo.seq_max
    )?;
    if sb.params[param::MIGRATED] != 0 {
        writeln!(out, "  a migration is committed but not finished")?;
    }
    for ctx in 0..contexts {
        context(&image, &geo, ctx, out)?;
    }
    for i in 0..count.shared {
        let root = image.word(geo.root(contexts + i, unit)).unwrap_or(0);
        writeln!(out, "  shared root {i} at {root:#06x}")?;
    }
    heap(&image, &geo, out)
}

fn context(image: &Image<'_>, geo: &Geometry, ctx: usize, out: &mut dyn Write) -> Result {
    let word = |off| image.word(off).unwrap_or(0);
    let committed = word(geo.word(ctx, image.unit));
    let doubt = geo.next(committed);
    writeln!(
        out,
        "  context {ctx}: root at {:#06x}, {committed} committed (if the pool owns the commit word), {doubt} in doubt",
        word(geo.root(ctx, image.unit))
    )?;
    for i in 0..geo.entries {
        let h = geo.header(ctx, i, image.unit);
        let (first, second) = (word(h), word(h + image.unit));
        if Undo::seq(second, image.unit) != doubt {
            break;
        }
        match Undo::decode(first, second, image.unit) {
            Some(u) => writeln!(out, "    entry {i}: undoes {u:?}")?,
            None => writeln!(out, "    entry {i}: DAMAGED")?,
        }
    }
    Ok(())
}

fn heap(image: &Image<'_>, geo: &Geometry, out: &mut dyn Write) -> Result {
    let mut off = geo.heap;
    let (mut objects, mut cells, mut free) = (0, 0, 0);
    while off < geo.end {
        let block = image.word(off).and_then(Block::decode);
        let Some(b) = block.filter(|b| b.bytes() <= geo.end - off) else {
            return writeln!(out, "  heap: the chain is DAMAGED at {off:#06x}");
        };
        let payload = off + image.unit;
        let bytes = b.bytes() - image.unit;
        if b.is(BlockKind::Free) {
            free += bytes;
        } else if b.is(BlockKind::Object) {
            objects += 1;
            writeln!(out, "  {payload:#06x}: object, up to {bytes} bytes")?;
        } else {
            cells += 1;
            let t = Tag::decode(image.word(payload).unwrap_or(0), image.unit);
            writeln!(
                out,
                "  {payload:#06x}: cell, version {} counts, written by context {} in transaction {}",
                t.current, t.ctx, t.seq
            )?;
        }
        off += b.bytes();
    }
    writeln!(out, "  {objects} objects, {cells} cells, {free} bytes free")
}
