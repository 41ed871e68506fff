//! What open does when it knows what is reachable: the table and the bitmap of exactly that.

use super::map::units_of;
use super::units::{WORDS, set};
use super::{Entry, Fail, PIECE, Store};
use crate::plain::{as_bytes, zero, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::{Medium, planted};

impl<S: Medium, P: Promise> Store<S, P> {
    /// Frees the entries of what is not reachable, and makes the bitmap that of what is.
    ///
    /// No two reachable objects share a byte afterwards, whatever the image held: the second of two that overlap is lost.
    ///
    /// **Power loss**: reachable objects are not touched; the next open does it again. **Cost**: reads the table and the headers once for each
    /// `8 × scratch` units; writes what differs. `scratch` may be of any size, and lose its content.
    #[inline(never)]
    pub(crate) fn sweep(
        &mut self,
        scratch: &mut [u8],
        reachable: impl Fn(u16) -> bool,
    ) -> Result<(), Fail> {
        let mut least = MaybeUninit::uninit();
        let scratch = if scratch.len() < PIECE {
            as_bytes(zeros::<WORDS>(&mut least))
        } else {
            scratch
        };
        self.free_units = self.map.units;
        let (start, len) = (self.map.bitmap(), self.map.bitmap_len());
        let mut at = 0;
        while at < len {
            let n = (scratch.len() as u32).min(len - at) as usize;
            let bits = &mut scratch[..n];
            // SAFETY: as many bytes.
            unsafe { zero(bits.as_mut_ptr(), bits.len()) }
            self.claim_all(bits, at * 8, &reachable)?;
            for piece in bits.chunks(PIECE) {
                self.put_changed(start + at, piece)?;
                at += piece.len() as u32;
                for b in piece {
                    self.free_units -= b.count_ones() as u16;
                }
            }
        }
        self.flush()
    }

    /// Sets the bits of what is reachable among the units from `first` on, from 0.
    fn claim_all(
        &mut self,
        bits: &mut [u8],
        first: u32,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<(), Fail> {
        self.free_ids = self.map.objects;
        // Once for what is intact; and once more, if something is not: nobody may write what is read as its header, so that it
        // stays what it is.
        let (mut again, mut doubtful) = (false, false);
        let mut id = 0;
        loop {
            if id == self.map.objects {
                if again || !doubtful {
                    return Ok(());
                }
                (again, id) = (true, 0);
            }
            id += 1;
            let e = self.entry(id)?;
            let new = if !reachable(id) {
                if e == Entry::FREE || planted!("vnv-heap/unreachable-kept") {
                    continue;
                }
                Entry::FREE
            } else {
                self.free_ids -= u16::from(!again);
                let lost = if self.map.has(e.pending(), 1) {
                    let (unit, n) = match self.locate_by(id, e) {
                        Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
                        Ok(place) if !again => (place.unit, units_of(place.len)),
                        Err(_) if again => (e.pending(), 1),
                        other => {
                            doubtful |= other.is_err();
                            continue;
                        }
                    };
                    let from = u32::from(unit) - 1;
                    set(bits, first, from, from + u32::from(n), true)
                        && !planted!("vnv-heap/overlap-unnoticed")
                } else {
                    // Its number must not be given to another one.
                    e == Entry::FREE && !planted!("vnv-heap/number-given-twice")
                };
                if !lost {
                    continue;
                }
                Entry::LOST
            };
            self.put_entry(id, new)?;
        }
    }
}
