//! The layout of a table: where each component lies.
//!
//! ```text
//! 0          128        run_state     +4 U      area_end(false)   area_end(true) = len
//! | superblock | outbox | run's state | area 0      | area 1      | pool ...
//!                                     payloads ->  <- headers
//! ```
//!
//! A run of the program uses one area; a new version begins in the other one, so that a cut leaves
//! the old run or the new one whole. docs/SPEC.md defines each byte.

use crate::error::ConfigItem;
use nvmem::superblock::Superblock;
use nvmem::{InOrder16, InOrder32, Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"RPLY";
/// Version of the format.
pub(crate) const VERSION: u16 = 4;
/// Units of a run's or a loop's state: the start word and two upper counters.
pub(crate) const STATE: usize = 3;

/// The capacity of a table. It is fixed when the region is formatted, and read from the medium
/// afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes for records: one unit for each step, input or loop, and their results rounded up to
    /// units (see the README). A loop needs room for the records of one iteration; nested loops add
    /// up. **Cost**: twice this size, because a new version of the program begins in a second area.
    pub bytes: u16,
    /// Bytes for the messages of one step; 0 if the program sends none.
    pub outbox_bytes: u16,
    /// Width of the sequence number, 3 to 16 bits (at most 8 on a medium with 16-bit units); small
    /// values are for tests. The pool uses the same width.
    pub seq_bits: u8,
}

impl Config {
    /// 512 bytes of records, 64 bytes of messages per step.
    pub const DEFAULT: Config = Config {
        bytes: 512,
        outbox_bytes: 64,
        seq_bits: 16,
    };
    /// 96 bytes of records: a dozen steps with a short result, some of them in a loop; no outbox.
    pub const SMALL: Config = Config {
        bytes: 96,
        outbox_bytes: 0,
        seq_bits: 16,
    };

    /// Bytes that the table takes on a medium of the model `M`; 0 if the configuration is invalid.
    pub fn table_bytes<M: Model>(&self) -> usize {
        match sizes::<M>(self) {
            _ if !matches!(self.seq_bits, 3..=16) => 0,
            INVALID_SIZES => 0,
            sizes => usize::try_from(table_len::<M>(sizes)).unwrap_or(0),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// Indices of the superblock's parameters: those of a pool with one root, except that the first
/// describes the table.
pub(crate) mod param {
    /// Bytes of an area in the lower half; in the upper half bytes of the outbox with its head and
    /// numbers. Multiples of 8.
    pub const TABLE: usize = 0;
    pub const SEQ_BITS: usize = 3;
    pub const UNIT: usize = 4;
    /// Bytes of the whole region.
    pub const LEN: usize = 5;

    /// The parameters for which the stored value counts, not today's configuration: sizes of the
    /// table, and of the pool's journal.
    pub const STORED: u8 = 1 << TABLE | 1 << 1 | 1 << 2 | 1 << SEQ_BITS;
}

/// Byte offsets of a table's components, and the range of its sequence numbers. The unit is the
/// model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub seq_max: u32,
    /// Bytes of the outbox with its head and numbers.
    pub outbox: usize,
    /// Bytes of one of the two record areas, which end the table.
    pub area: usize,
    pub len: usize,
}

/// Offset of the outbox: head word, two message numbers, messages.
pub(crate) const OUTBOX: usize = Superblock::BYTES;

impl Geometry {
    /// Computes the layout from a superblock's parameters, which may be any numbers.
    pub fn new<M: Model>(params: &[u32; 8]) -> Result<Geometry, ConfigItem> {
        let unit = M::Unit::BYTES as u32;
        let (sizes, bits) = (params[param::TABLE], params[param::SEQ_BITS]);
        if bits.wrapping_sub(3) > 13 {
            return Err(ConfigItem::SeqBits);
        }
        let Ok(len) = usize::try_from(table_len::<M>(sizes)) else {
            return Err(ConfigItem::Length);
        };
        // Two 16-bit multiples of 8. A bit test instead of a remainder links no panic.
        if sizes & INVALID_SIZES != 0 {
            return Err(ConfigItem::Length);
        }
        // Both sizes are smaller than `len`.
        Ok(Geometry {
            seq_max: (1 << bits.min(unit * 4)) - 1,
            outbox: (sizes >> 16) as usize,
            area: (sizes & 0xffff) as usize,
            len,
        })
    }

    /// The offset of the run's state.
    #[inline(always)]
    pub fn run_state(&self) -> usize {
        OUTBOX + self.outbox
    }

    /// The end of the first or the second area.
    #[inline(always)]
    pub fn area_end(&self, second: bool) -> usize {
        if second {
            self.len
        } else {
            self.len - self.area
        }
    }

    /// Units available for messages.
    #[inline(always)]
    pub fn outbox_units<M: Model>(&self) -> u32 {
        (self.outbox.saturating_sub(M::Unit::BYTES + 8) / M::Unit::BYTES) as u32
    }

    #[inline(always)]
    pub fn next(&self, seq: u32) -> u32 {
        if seq >= self.seq_max { 1 } else { seq + 1 }
    }
}

/// Sizes that no table has: each half has bits that no multiple of 8 has.
const INVALID_SIZES: u32 = 0x0007_0007;

/// The first parameter of this configuration's superblock; [`INVALID_SIZES`] if it is invalid.
#[inline(always)]
fn sizes<M: Model>(c: &Config) -> u32 {
    let mut outbox = u32::from(c.outbox_bytes);
    if outbox > 0 {
        outbox = (M::Unit::BYTES as u32 + 8 + outbox).next_multiple_of(8);
    }
    let area = u32::from(c.bytes).next_multiple_of(8);
    if (area | outbox) >> 16 == 0 {
        area | outbox << 16
    } else {
        INVALID_SIZES
    }
}

/// Bytes of a table of these sizes.
#[inline(always)]
fn table_len<M: Model>(sizes: u32) -> u32 {
    OUTBOX as u32 + (sizes >> 16) + 4 * M::Unit::BYTES as u32 + 2 * (sizes & 0xffff)
}

/// The superblock of a table of this configuration, with a pool behind it, in a region of `len`
/// bytes.
#[inline(always)]
pub(crate) fn superblock<M: Model>(
    c: &Config,
    pool: Option<pmem_tx::Config>,
    len: usize,
    fingerprint: u64,
) -> Superblock {
    let mut pool =
        pool.unwrap_or_else(|| pmem_tx::Config::for_len(len.saturating_sub(c.table_bytes::<M>())));
    pool.seq_bits = c.seq_bits;
    let mut params = pool.params::<M>(len);
    params[param::TABLE] = sizes::<M>(c);
    Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint,
        params,
    }
}

/// For inspection tools: the offset of the pool behind a table, and a superblock that describes
/// this pool alone.
#[doc(hidden)]
pub fn pool_region(sb: &Superblock) -> Option<(usize, Superblock)> {
    let table = match sb.params[param::UNIT] {
        _ if (sb.kind, sb.version) != (KIND, VERSION) => return None,
        2 => Geometry::new::<InOrder16>(&sb.params),
        4 => Geometry::new::<InOrder32>(&sb.params),
        _ => return None,
    };
    let at = table.ok()?.len - Superblock::BYTES;
    let mut pool = *sb;
    // The pool has one context.
    pool.params[param::TABLE] = 1;
    pool.params[param::LEN] = pool.params[param::LEN].checked_sub(u32::try_from(at).ok()?)?;
    Some((at, pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The size computed in 128 bits, where nothing wraps; `None` for an invalid configuration.
    fn wide<M: Model>(c: &Config) -> Option<u128> {
        let up8 = |v: u128| v.div_ceil(8) * 8;
        let unit = M::Unit::BYTES as u128;
        let area = up8(c.bytes.into());
        let outbox = match c.outbox_bytes {
            0 => 0,
            n => up8(unit + 8 + u128::from(n)),
        };
        let fits = area < 0x1_0000 && outbox < 0x1_0000 && (3..=16).contains(&c.seq_bits);
        // The superblock, the outbox, the run's state with one unit of padding, two areas.
        fits.then(|| Superblock::BYTES as u128 + outbox + 4 * unit + 2 * area)
    }

    fn right_or_refused<M: Model>(c: Config) {
        let want = wide::<M>(&c);
        assert_eq!(c.table_bytes::<M>() as u128, want.unwrap_or(0), "{c:?}");
        for len in [0, 1024, u32::MAX as usize - 7, usize::MAX & !7] {
            let sb = superblock::<M>(&c, None, len, 0);
            match (Geometry::new::<M>(&sb.params), want) {
                (Ok(geo), Some(want)) => {
                    assert_eq!(geo.len as u128, want);
                    divided::<M>(&geo);
                }
                (Err(_), None) => {}
                (got, want) => panic!("{c:?}: {got:?}, {want:?}"),
            }
        }
    }

    /// The components lie one behind the other, and the last one ends where the table ends.
    fn divided<M: Model>(geo: &Geometry) {
        let unit = M::Unit::BYTES;
        assert!(geo.run_state() + STATE * unit <= geo.area_end(false) - geo.area);
        assert_eq!(geo.area_end(true) - geo.area, geo.area_end(false));
        assert_eq!(geo.area_end(true), geo.len);
        let messages = geo.outbox_units::<M>() as usize * unit;
        assert!(messages == 0 || OUTBOX + unit + 8 + messages <= geo.run_state());
        let mut seq = geo.seq_max;
        for want in 1..4 {
            seq = geo.next(seq);
            assert_eq!(seq, want);
        }
    }

    fn config(bytes: u16, outbox_bytes: u16, seq_bits: u8) -> Config {
        Config {
            bytes,
            outbox_bytes,
            seq_bits,
        }
    }

    #[test]
    fn a_tables_size_is_right_or_refused_at_the_extremes() {
        let sizes = [
            0, 1, 7, 8, 9, 0x7fff, 0x8000, 65_515, 65_520, 65_521, 65_528, 65_529, 65_535,
        ];
        for (bytes, outbox) in sizes.iter().flat_map(|a| sizes.map(|b| (*a, b))) {
            for bits in [0, 2, 3, 8, 16, 17, 255] {
                right_or_refused::<InOrder32>(config(bytes, outbox, bits));
                right_or_refused::<InOrder16>(config(bytes, outbox, bits));
            }
        }
    }

    proptest! {
        #[test]
        fn a_tables_size_is_right_or_refused(bytes: u16, outbox: u16, bits: u8) {
            right_or_refused::<InOrder32>(config(bytes, outbox, bits % 20));
            right_or_refused::<InOrder16>(config(bytes, outbox, bits % 20));
        }

        /// Any parameters give components that do not overlap, or an error.
        #[test]
        fn any_parameters_are_divided_or_refused(params: [u32; 8], bits in 0u32..20) {
            let mut params = params;
            for mask in [u32::MAX, 0xfff8_fff8] {
                params[param::TABLE] &= mask;
                params[param::SEQ_BITS] = bits;
                if let Ok(geo) = Geometry::new::<InOrder32>(&params) {
                    divided::<InOrder32>(&geo);
                }
                if let Ok(geo) = Geometry::new::<InOrder16>(&params) {
                    divided::<InOrder16>(&geo);
                }
            }
        }
    }
}
