//! Where everything lies.

use super::UNIT;
use crate::config::Config;
use nvmem::superblock::Superblock;

/// The two records, 16 bytes apart.
pub(super) const RECORDS: u32 = Superblock::BYTES as u32;
pub(super) const RECORD_STRIDE: u32 = 16;
/// The number of the last commit that the table shows in full.
pub(super) const APPLIED: u32 = RECORDS + 2 * RECORD_STRIDE;
const PINS: u32 = APPLIED + 8;
pub(super) const PIN_BYTES: u32 = 8;
/// Units are numbered up to this.
const MAX_UNITS: u32 = 0xFE00;
const MAX_PINS: u16 = 0x1000;

/// The sizes that all places follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) objects: u16,
    pub(super) units: u16,
    pub(super) pins: u16,
}

impl Map {
    /// Of nothing.
    pub(super) const NONE: Map = Map {
        objects: 0,
        units: 0,
        pins: 0,
    };

    /// Of the largest heap of this configuration in `capacity` bytes. **Errors**: the bytes that the smallest one needs.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn largest(config: &Config, capacity: u32) -> Result<Map, u32> {
        let mut map = Map {
            objects: config.objects,
            units: 0,
            pins: config.max_pins,
        };
        // Eight units are 65 bytes with their part of the bitmap; the bitmap's end is rounded up.
        let fixed = map.end();
        let groups = (capacity.saturating_sub(fixed + 8) / (8 * UNIT + 1)).min(MAX_UNITS / 8);
        if groups == 0 {
            return Err(fixed + 8 + 8 * UNIT + 1);
        }
        map.units = (groups * 8) as u16;
        Ok(map)
    }

    /// Of what a header says.
    pub(super) fn of_params(params: &[u32; 8]) -> Option<Map> {
        let [objects, units, pins, rest @ ..] = *params;
        let map = Map {
            objects: u16::try_from(objects).ok()?,
            units: u16::try_from(units).ok()?,
            pins: u16::try_from(pins).ok()?,
        };
        (map.is_sound() && units > 0 && units.is_multiple_of(8) && rest.iter().all(|v| *v == 0))
            .then_some(map)
    }

    pub(super) fn params(&self) -> [u32; 8] {
        let [o, u, p] = [self.objects, self.units, self.pins].map(u32::from);
        [o, u, p, 0, 0, 0, 0, 0]
    }

    /// Whether the counts are such as a configuration can have.
    pub(super) fn is_sound(&self) -> bool {
        (1..0xFFFF).contains(&self.objects)
            && u32::from(self.units) <= MAX_UNITS
            && self.pins <= MAX_PINS
    }

    pub(super) fn pin(&self, i: u16) -> Option<u32> {
        (i < self.pins).then_some(PINS + u32::from(i) * PIN_BYTES)
    }

    pub(super) fn table(&self) -> u32 {
        PINS + u32::from(self.pins) * PIN_BYTES
    }

    /// The entry of an object.
    pub(super) fn entry(&self, id: u16) -> Option<u32> {
        (id != 0 && id <= self.objects).then(|| self.table() + (u32::from(id) - 1) * 4)
    }

    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn bitmap(&self) -> u32 {
        (self.table() + u32::from(self.objects) * 4).next_multiple_of(8)
    }

    pub(super) fn bitmap_len(&self) -> u32 {
        u32::from(self.units) / 8
    }

    fn blocks(&self) -> u32 {
        (self.bitmap() + self.bitmap_len()).next_multiple_of(8)
    }

    /// The address of a unit; they are numbered from 1.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn unit(&self, unit: u16) -> u32 {
        self.blocks() + u32::from(unit.saturating_sub(1)) * UNIT
    }

    /// Whether these units are all there.
    pub(super) fn has(&self, unit: u16, n: u16) -> bool {
        unit != 0 && u32::from(unit) - 1 + u32::from(n) <= u32::from(self.units)
    }

    pub(super) fn end(&self) -> u32 {
        self.blocks() + u32::from(self.units) * UNIT
    }
}

/// The units of a block whose content has this many bytes.
pub(super) fn units_of(len: u16) -> u16 {
    ((u32::from(len) + super::BLOCK_HEADER).div_ceil(UNIT)) as u16
}
