//! The geometry: where the superblock, records, table, bitmap and units lie.

use super::UNIT;
use crate::config::{Config, MAX_PINS};
use crate::error::Fail;
use nvmem::planted;
use nvmem::superblock::Superblock;

/// The two records, 16 bytes apart.
pub(super) const RECORDS: u32 = Superblock::BYTES as u32;
pub(super) const RECORD_STRIDE: u32 = 16;
/// The applied word: which commit the table shows completely.
pub(super) const APPLIED: u32 = RECORDS + 2 * RECORD_STRIDE;
const PINS: u32 = APPLIED + 8;
pub(super) const PIN_BYTES: u32 = 8;
/// The largest unit number.
const MAX_UNITS: u32 = 0xFE00;

/// Sizes and addresses of the areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) objects: u16,
    pub(super) units: u16,
    /// The address of the table of objects.
    table: u16,
    /// The address of unit 0 (units are numbered from 1), in units.
    before: u16,
}

const _: () = {
    let table = PINS + MAX_PINS as u32 * PIN_BYTES;
    assert!(table <= u16::MAX as u32);
    assert!((table + 4 * 0xFFFE + MAX_UNITS / 8 + 14) / UNIT <= u16::MAX as u32);
};

impl Geometry {
    /// Before open.
    pub(super) const NONE: Geometry = Geometry {
        objects: 0,
        units: 0,
        table: PINS as u16,
        before: 0,
    };

    /// From these counts. `None` when no configuration can have them.
    fn new(objects: u32, units: u32, pins: u32) -> Option<Geometry> {
        let sound = (1..0xFFFF).contains(&objects) && units <= MAX_UNITS;
        if !sound || pins > u32::from(MAX_PINS) {
            return None;
        }
        let table = PINS + pins * PIN_BYTES;
        let blocks = (bitmap_at(table, objects) + units / 8).next_multiple_of(UNIT);
        Some(Geometry {
            objects: objects as u16,
            units: units as u16,
            table: table as u16,
            before: (blocks / UNIT - 1) as u16,
        })
    }

    /// The largest heap of this configuration in `capacity` bytes. **Errors**: the medium is too
    /// small.
    #[inline(never)]
    pub(super) fn largest(config: &Config, capacity: u32) -> Result<Geometry, Fail> {
        let (objects, pins) = (u32::from(config.objects), u32::from(config.max_pins));
        // Eight units are 65 bytes with their part of the bitmap; the bitmap's end is rounded up.
        let fixed = bitmap_at(PINS + pins * PIN_BYTES, objects);
        let groups = (capacity.saturating_sub(fixed + 8) / (8 * UNIT + 1)).min(MAX_UNITS / 8);
        match Geometry::new(objects, groups * 8, pins) {
            Some(map) if groups != 0 => Ok(map),
            _ => Err(Fail::too_small(fixed + 8 + 8 * UNIT + 1)),
        }
    }

    /// From the superblock's parameters.
    pub(super) fn of_params(params: &[u32; 8]) -> Option<Geometry> {
        let [objects, units, pins, rest @ ..] = *params;
        Geometry::new(objects, units, pins)
            .filter(|_| units > 0 && units.is_multiple_of(8) && rest.iter().all(|v| *v == 0))
    }

    pub(super) fn params(&self) -> [u32; 8] {
        let [o, u, p] = [self.objects, self.units, self.pins()].map(u32::from);
        // Hides the constant from the optimiser, which would call `memset` for five zero words.
        let zero = core::hint::black_box(0);
        [o, u, p, zero, zero, zero, zero, zero]
    }

    /// How many pins can be recorded.
    pub(super) fn pins(&self) -> u16 {
        ((self.table() - PINS) / PIN_BYTES) as u16
    }

    pub(super) fn pin(&self, i: u16) -> Option<u32> {
        (i < self.pins()).then_some(PINS + u32::from(i) * PIN_BYTES)
    }

    pub(super) fn table(&self) -> u32 {
        u32::from(self.table)
    }

    /// The address of an object's entry.
    pub(super) fn entry(&self, id: u16) -> Option<u32> {
        (id != 0 && id <= self.objects).then(|| self.table() + (u32::from(id) - 1) * 4)
    }

    pub(super) fn bitmap(&self) -> u32 {
        bitmap_at(self.table(), u32::from(self.objects))
    }

    pub(super) fn bitmap_len(&self) -> u32 {
        u32::from(self.units) / 8
    }

    /// The address of a unit; units are numbered from 1.
    #[inline(always)]
    pub(super) fn unit(&self, unit: u16) -> u32 {
        (u32::from(self.before) + u32::from(unit)) * UNIT
    }

    /// Whether `n` units from `unit` on exist.
    pub(super) fn has(&self, unit: u16, n: u16) -> bool {
        let end = u32::from(self.units) + u32::from(planted!("vnv-heap/one-unit-more"));
        unit != 0 && u32::from(unit) - 1 + u32::from(n) <= end
    }

    pub(super) fn end(&self) -> u32 {
        self.unit(self.units) + UNIT
    }
}

/// Address of the bitmap behind a table of so many objects.
fn bitmap_at(table: u32, objects: u32) -> u32 {
    (table + objects * 4).next_multiple_of(UNIT)
}

/// Units of a block whose content has this many bytes.
pub(super) fn units_of(len: u16) -> u16 {
    // No `div_ceil`: the sum cannot overflow.
    ((u32::from(len) + super::BLOCK_HEADER + UNIT - 1) >> UNIT.ilog2()) as u16
}
