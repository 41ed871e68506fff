//! Decides whether to compare a cell with the medium before writing it.

use crate::cost::Cost;

const REGIONS: usize = 32;

/// For each region of memory, how often a compared cell was unchanged: a moving average, in 256ths.
/// All regions start with "always compare". If comparing does not pay, a region learns that within
/// some cells. Starting with "never" would write unchanged cells until the region is sampled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adaptive {
    same: [u8; REGIONS],
    /// The average from which comparing pays.
    least: u8,
    tick: u8,
}

impl Adaptive {
    pub(super) const ALWAYS: Self = Adaptive {
        same: [u8::MAX; REGIONS],
        least: 0,
        tick: 0,
    };

    pub(super) const fn new(cost: &Cost, cell: u32, unit: u32, erases: bool) -> Self {
        // In nanojoules, in 32 bits: comparing a cell costs less than a hundredth of a joule on any
        // medium.
        let compare = (cost.compare_pj / 8).saturating_mul(cell) / 125;
        let compare = if compare > 1 << 23 { 1 << 23 } else { compare };
        let programs = cell.div_ceil(cost.step()).saturating_mul(cost.program_nj);
        let erase = if erases {
            (cost.erase_nj / 64).saturating_mul(cell) / unit * 64
        } else {
            0
        };
        let write = programs.saturating_add(erase);
        let least = (256 * compare).div_ceil(if write > 0 { write } else { 1 });
        Adaptive {
            least: if least > 255 { 255 } else { least as u8 },
            ..Self::ALWAYS
        }
    }

    /// The region of a cell, with `cells` cells in all.
    pub(super) fn region(cell: u32, cells: u32) -> usize {
        (cell * REGIONS as u32).checked_div(cells).unwrap_or(0) as usize % REGIONS
    }

    /// Whether to compare a cell of this region.
    pub(super) fn compares(&mut self, region: usize) -> bool {
        if self.same.get(region).is_none_or(|s| *s >= self.least) {
            return true;
        }
        self.tick = (self.tick + 1) % 32;
        self.tick == 0
    }

    /// Notes the result of a comparison.
    pub(super) fn learn(&mut self, region: usize, same: bool) {
        if let Some(s) = self.same.get_mut(region) {
            *s = if same {
                s.saturating_add((u8::MAX - *s).div_ceil(8))
            } else {
                *s - s.div_ceil(8)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learns_when_comparing_pays() {
        let mut a = Adaptive::new(&Cost::STM32L1, 128, 256, true);
        // 14.5 of 133 µJ.
        assert_eq!(a.least, 28);
        let (mut compared, region) = (0, Adaptive::region(3, 640));
        for _ in 0..640 {
            if a.compares(region) {
                compared += 1;
                a.learn(region, false);
            }
        }
        assert!((16..50).contains(&compared), "{compared}");
        let first = (0..).find(|_| {
            let now = a.compares(region);
            if now {
                a.learn(region, true);
            }
            now && a.compares(region)
        });
        assert!(first.is_some_and(|n| n <= 64), "{first:?}");
        // Cheap comparing is always done.
        let mut a = Adaptive::new(&Cost::STM32F0, 128, 2048, true);
        (0..100).for_each(|_| a.learn(0, false));
        assert!(a.least <= 1 && (0..100).filter(|_| a.compares(0)).count() >= 3);
    }
}
