//! The units of a mapped region: read all, flip a bit of one, replace one.

use nvmem::{Model, Region, Unit};

/// All bytes.
pub fn image<M: Model>(region: &Region<'_, M>) -> Vec<u8> {
    let units = (0..region.len()).step_by(M::Unit::BYTES);
    units
        .flat_map(|at| {
            // SAFETY: inside, aligned, and nothing is lent.
            let unit = unsafe { region.load(at) };
            unit.to_le_bytes().into_iter().take(M::Unit::BYTES)
        })
        .collect()
}

/// The unit of a bit: its offset, its value, and its value with this bit flipped.
pub fn flipped<M: Model>(region: &Region<'_, M>, bit: usize) -> (usize, u32, u32) {
    let bits = 8 * M::Unit::BYTES;
    let at = bit / bits * M::Unit::BYTES;
    // SAFETY: inside, aligned, and nothing is lent.
    let before = unsafe { region.load(at) };
    (at, before, before ^ 1 << (bit % bits))
}
