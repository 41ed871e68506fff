//! The second pass of open: rebuilds table and bitmap from the reachable objects.
//!
//! ```text
//!  no damage known:
//!    for each stretch of the bitmap (as much as fits into scratch):
//!       claim_all: set the bits of each reachable block
//!                  two claim one unit, or a claimed unit was free --> damage known
//!       write the bytes that differ
//!    clear the entries of unreachable objects
//!  damage known: start over, free nothing
//!    pass 1: claim the blocks of reachable objects whose check is right; one that overlaps is lost
//!    pass 2: claim unreachable blocks that are intact, and one unit of each damaged block,
//!            so that a later allocation cannot overwrite its header
//!    other units: the old bitmap's bits stay
//! ```
//!
//! Why it is safe: damage must not spread over any number of opens. A length that nothing proves
//! takes no unit from another object, and while damage is known no entry and no unit is freed. Only
//! metadata is written, never a reachable block, so the sweep may be cut and repeated.

use super::geometry::units_of;
use super::open::NO_ENTRIES;
use super::units::{WORDS, set};
use super::{Entry, Fail, GIVES_UP, MANY, PIECE, Store};
use crate::plain::{as_bytes, zero, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::{Medium, planted};

/// The first and the last unreachable object with an entry. Empty when first > last.
type Range = (u16, u16);

/// What claiming all reachable blocks found.
enum Claims {
    Sound,
    /// An object is damaged, two claim one unit, or one claims a unit that was free: a length in a
    /// header or an entry is wrong.
    Damage,
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// Rebuilds the bitmap from the reachable objects and clears the entries of the others. When
    /// damage is known (`damaged` counts objects with handles), nothing becomes free, unless this
    /// open salvages.
    ///
    /// Afterwards no two readable objects share a byte, for any image: the second of two
    /// that overlap is lost.
    ///
    /// **Power loss**: reachable objects are not touched; the next open does it again. **Cost**:
    /// reads the table and the headers once for each `8 * scratch` units, and writes what differs.
    /// When damage is known, three times, and it reads the reachable content. `scratch` may have
    /// any size; its content is lost.
    #[inline(never)]
    pub(crate) fn sweep(
        &mut self,
        scratch: &mut [u8],
        damaged: u16,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<(), Fail> {
        let mut least = MaybeUninit::uninit();
        let scratch = if scratch.len() < PIECE {
            as_bytes(zeros::<WORDS>(&mut least))
        } else {
            scratch
        };
        let gives_up = self.damaged == GIVES_UP;
        self.damaged = damaged.min(MANY.into()) as u8;
        let mut damage = damaged != 0 && !planted!("vnv-heap/swept-while-damaged");
        let mut unreachable = (u16::MAX, 0);
        self.free_units = self.geometry.units;
        let (start, len) = (self.geometry.bitmap(), self.geometry.bitmap_len());
        let mut at = 0;
        while at < len {
            let n = (scratch.len() as u32).min(len - at) as usize;
            let bits = &mut scratch[..n];
            // SAFETY: as many bytes.
            unsafe { zero(bits.as_mut_ptr(), bits.len()) }
            let mut claims = Claims::Sound;
            // While damage is known, no used unit becomes free.
            let mut keep_mask = 0;
            if damage {
                self.claim_what_is_known(bits, at * 8, gives_up, &reachable)?;
                keep_mask = if gives_up { 0 } else { 0xFF };
            } else {
                claims = self.claim_all(bits, at * 8, &mut unreachable, &reachable)?;
            }
            for piece in bits.chunks_mut(PIECE) {
                let mut b = MaybeUninit::uninit();
                let there = &mut as_bytes(zeros::<WORDS>(&mut b))[..piece.len()];
                self.get(start + at, there)?;
                let (mut differs, mut more) = (0, 0);
                for (new, old) in piece.iter_mut().zip(there) {
                    // These include units of blocks whose length is unknown.
                    *new |= *old & keep_mask;
                    differs |= *new ^ *old;
                    more |= *new & !*old;
                }
                if more != 0 && !damage && !planted!("vnv-heap/claims-more") {
                    claims = Claims::Damage;
                }
                if let Claims::Damage = claims {
                    break;
                }
                if differs != 0 {
                    self.put(start + at, piece)?;
                }
                at += piece.len() as u32;
                if damage {
                    // Lengths are not reliable here: count bits.
                    for b in piece {
                        self.free_units -= b.count_ones() as u16;
                    }
                }
            }
            if let Claims::Damage = claims {
                // Start over. The bytes written so far lack no bit of a reachable block.
                damage = true;
                at = 0;
                self.free_units = self.geometry.units;
            }
        }
        let (first, last) = match damage {
            false => unreachable,
            true if gives_up => (1, self.geometry.objects),
            true => return Ok(()),
        };
        if planted!("vnv-heap/unreachable-kept") {
            return Ok(());
        }
        for id in first..=last {
            if !reachable(id) && self.entry(id)? != Entry::FREE {
                self.put_entry(id, Entry::FREE)?;
            }
        }
        Ok(())
    }

    /// Sets the bits of all reachable blocks, in a bitmap part that begins with unit `first` (from
    /// 0).
    fn claim_all(
        &mut self,
        bits: &mut [u8],
        first: u32,
        unreachable: &mut Range,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<Claims, Fail> {
        (self.free_ids, self.free_units) = (self.geometry.objects, self.geometry.units);
        let mut id = 1;
        while id <= self.geometry.objects {
            let mut table = NO_ENTRIES;
            let n = self.entries(id, &mut table)?;
            for (id, e) in (id..).zip(table.iter().take(usize::from(n))) {
                let e = Entry::decode(*e);
                if !reachable(id) {
                    if e != Entry::FREE {
                        *unreachable = (unreachable.0.min(id), id.max(unreachable.1));
                    }
                    continue;
                }
                self.free_ids -= 1;
                let place = match self.locate_by(id, e) {
                    Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
                    Ok(place) => place,
                    Err(_) => return Ok(Claims::Damage),
                };
                let units = units_of(place.len);
                if claim(bits, first, place.unit, units) {
                    return Ok(Claims::Damage);
                }
                // An overlap in another part is noticed there.
                self.free_units = self.free_units.saturating_sub(units);
            }
            id += n;
        }
        Ok(Claims::Sound)
    }

    /// The same when damage is known: pass 1 claims the blocks of reachable objects with the right
    /// check. Pass 2 claims unreachable blocks that are kept, and the header unit of each damaged
    /// object, so that a later allocation cannot change it. The remaining units of those stay as
    /// the old bitmap has them.
    #[cold]
    #[inline(never)]
    fn claim_what_is_known(
        &mut self,
        bits: &mut [u8],
        first: u32,
        gives_up: bool,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<(), Fail> {
        (self.free_ids, self.damaged) = (self.geometry.objects, 0);
        for sound in [true, false] {
            for id in 1..=self.geometry.objects {
                let e = self.entry(id)?;
                if !reachable(id) && (e == Entry::FREE || gives_up) {
                    continue;
                }
                let place = match self.locate_by(id, e) {
                    Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
                    place => place.ok(),
                };
                if !sound {
                    self.free_ids -= 1;
                    let n = match place {
                        Some(place) if !reachable(id) && self.is_sound(id, &place)? => {
                            units_of(place.len)
                        }
                        _ => 1,
                    };
                    if self.geometry.has(e.pending(), n) && !planted!("vnv-heap/damaged-unclaimed")
                    {
                        claim(bits, first, e.pending(), n);
                    }
                    continue;
                }
                if !reachable(id) {
                    continue;
                }
                let lost = match place {
                    Some(place) if self.is_sound(id, &place)? => {
                        claim(bits, first, place.unit, units_of(place.len))
                            && !planted!("vnv-heap/overlap-unnoticed")
                    }
                    // Its number must not be allocated again.
                    _ => {
                        self.damaged = (self.damaged + 1).min(MANY);
                        e == Entry::FREE && !planted!("vnv-heap/number-given-twice")
                    }
                };
                if lost {
                    self.mark_lost(id)?;
                }
            }
        }
        Ok(())
    }
}

/// Sets the bits of `n` units. Whether one of them was set.
fn claim(bits: &mut [u8], first: u32, unit: u16, n: u16) -> bool {
    let from = u32::from(unit) - 1;
    set(bits, first, from, from + u32::from(n), true)
}
