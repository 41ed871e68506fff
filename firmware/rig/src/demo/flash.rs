//! The flash: what it holds, what its operations took, and what a cut leaves of one.

use checkpoint::{Cost, Work};

/// What operations take. Reading is reading, whether something is compared with it or not.
pub const COST: Cost = Cost::STM32L1;
/// Bytes.
pub const CAPACITY: usize = 64 * 1024;
const HALF_PAGE: usize = COST.operation as usize;
const UNIT: usize = 256;
/// What erased bytes read.
pub const ERASED: u8 = 0;

/// The flash of the board. It survives everything.
pub struct Flash {
    bytes: Box<[u8]>,
    /// What was done since it was asked.
    pub work: Work,
}

/// An operation on half pages or units.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Bits of erased half pages are set.
    Program(&'a [u8]),
    /// So many bytes become what erased ones are.
    Erase(usize),
}

impl Flash {
    pub fn blank() -> Self {
        Flash {
            bytes: vec![ERASED; CAPACITY].into(),
            work: Work::default(),
        }
    }

    /// Nanoseconds, and what stands there; `None` when it is outside.
    pub fn read(&mut self, at: usize, len: usize) -> Option<(u64, &[u8])> {
        let bytes = self.bytes.get(at..at.checked_add(len)?)?;
        self.work.read += len as u64;
        Some((len as u64 * u64::from(COST.read_ns), bytes))
    }

    /// Makes a change, piece by piece, until `time` nanoseconds are over: the piece in flight is
    /// then torn, and this is how much it took.
    ///
    /// `None` when it is outside, misaligned, or not erased.
    pub fn change(&mut self, at: usize, what: Change<'_>, time: u64, seed: u64) -> Option<u64> {
        let (len, piece, each) = match what {
            Change::Program(bytes) => (bytes.len(), HALF_PAGE, COST.program_ns),
            Change::Erase(len) => (len, UNIT, COST.erase_ns),
        };
        let here = self.bytes.get_mut(at..at.checked_add(len)?)?;
        let whole = at.is_multiple_of(piece) && len.is_multiple_of(piece);
        let programs = matches!(what, Change::Program(_));
        if !whole || programs && here.iter().any(|b| *b != ERASED) {
            return None;
        }
        let mut took = 0;
        for (i, to) in here.chunks_mut(piece).enumerate() {
            if took >= time {
                break;
            }
            took += u64::from(each);
            let torn = (took > time).then_some(seed ^ i as u64);
            match what {
                Change::Program(from) => {
                    set(to, &from[i * piece..][..piece], torn);
                    self.work.programs += 1;
                    self.work.written += piece as u64;
                }
                Change::Erase(_) => {
                    set(to, &[ERASED; UNIT], torn);
                    self.work.erases += 1;
                }
            }
        }
        Some(took)
    }
}

/// Each bit becomes the new one; if it is torn, about half of them do.
fn set(to: &mut [u8], from: &[u8], torn: Option<u64>) {
    for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
        let mask = torn.map_or(0xFF, |seed| mix(seed << 16 ^ i as u64) as u8);
        *to = *to & !mask | from & mask;
    }
}

/// The finaliser of splitmix64.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const OP: u64 = COST.program_ns as u64;

    #[test]
    fn a_half_page_is_programmed_once_and_erased_by_units() {
        let mut f = Flash::blank();
        let new = [0x5A; 2 * HALF_PAGE];
        assert_eq!(
            f.change(256, Change::Program(&new), u64::MAX, 1),
            Some(2 * OP)
        );
        assert_eq!(f.read(256, 256).map(|r| r.1.to_vec()), Some(new.to_vec()));
        assert_eq!(f.change(256, Change::Program(&new), u64::MAX, 1), None);
        assert_eq!(f.change(128, Change::Erase(256), u64::MAX, 1), None);
        assert_eq!(f.change(CAPACITY, Change::Program(&new), u64::MAX, 1), None);
        assert!(f.change(256, Change::Erase(256), u64::MAX, 1).is_some());
        assert_eq!(
            f.read(256, 256).map(|r| r.1.to_vec()),
            Some(vec![ERASED; 256])
        );
        assert_eq!((f.work.programs, f.work.erases), (2, 1));
    }

    #[test]
    fn what_is_cut_is_in_between_and_what_comes_behind_it_is_not_begun() {
        let mut f = Flash::blank();
        let new = [0xFF; 3 * HALF_PAGE];
        assert_eq!(f.change(0, Change::Program(&new), OP + 1, 7), Some(2 * OP));
        let (_, now) = f.read(0, 3 * HALF_PAGE).unwrap_or_default();
        let set = |at: usize| {
            now[at * HALF_PAGE..][..HALF_PAGE]
                .iter()
                .map(|b| b.count_ones())
                .sum::<u32>()
        };
        assert_eq!(set(0), 8 * HALF_PAGE as u32);
        assert!((300..700).contains(&set(1)), "{}", set(1));
        assert_eq!(set(2), 0);
        assert!(f.change(0, Change::Erase(256), 1, 7).is_some());
        let (_, now) = f.read(0, 256).unwrap_or_default();
        assert!(
            now.iter().any(|b| *b != ERASED),
            "an erase that was cut is none"
        );
    }
}
