//! The walk from the root at open: every reachable object is valid and has one owner.
//!
//! ```text
//!  marks, 4 bits an object:
//!    NONE --a handle points to it--> PENDING+type --its handles visited--> DONE
//!  next = lowest PENDING object; read it; its type's check reports each handle to `Walk::handle`
//! ```
//!
//! A damaged object is skipped, so that the others stay usable; a damaged root is an error. Accepts
//! any bytes: the result is an error or a walk, never undefined behaviour. Uses no recursion. The
//! RAM buffer holds the marks and one object. An object without handles is only marked; its content
//! is checked when it is paged in.

use crate::config::Promise;
use crate::error::Fail;
use crate::handle::HandleRange;
use crate::heap::ROOT;
use crate::plain::zero;
use crate::store::Store;
use core::mem::MaybeUninit;
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, planted};

/// How many types with handles can be reachable from a root.
const TYPES: usize = 14;

/// No handle points to it.
pub(crate) const NONE: u8 = 0;
/// It has an owner, and its handles have been visited.
pub(crate) const DONE: u8 = 1;
/// It has an owner. Its handles are to be visited, as the type of this index.
const PENDING: u8 = 2;

/// Marks of four bits each.
pub(crate) struct Marks<'r> {
    pub(crate) bits: &'r mut [u8],
}

impl Marks<'_> {
    #[inline(never)]
    pub(crate) fn get(&self, id: u16) -> u8 {
        let byte = self.bits.get(usize::from(id) / 2).copied().unwrap_or(0);
        byte >> (id % 2 * 4) & 15
    }
    #[inline(never)]
    pub(crate) fn set(&mut self, id: u16, mark: u8) {
        if let Some(byte) = self.bits.get_mut(usize::from(id) / 2) {
            let shift = id % 2 * 4;
            *byte = *byte & !(15 << shift) | mark << shift;
        }
    }
}

struct Walk<'r> {
    marks: Marks<'r>,
    /// The types seen so far, `type_count` of them.
    types: [MaybeUninit<Target>; TYPES],
    type_count: u8,
    known: HandleRange,
    /// The lowest object that may be pending.
    low: u16,
    count: u16,
    too_many: bool,
}

impl Visit for Walk<'_> {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        self.known.handle(value, found)?;
        let bad = Invalid::Handle(found.family);
        let id = value as u16;
        if self.marks.get(id) != NONE && !planted!("vnv-heap/two-owners") {
            return Err(bad);
        }
        let mark = if found.handles {
            self.index(found.target).ok_or(bad)?
        } else {
            DONE
        };
        self.count += 1;
        self.marks.set(id, mark);
        if mark >= PENDING {
            self.low = self.low.min(id);
        }
        Ok(())
    }
}

impl Walk<'_> {
    fn index(&mut self, t: Target) -> Option<u8> {
        for i in 0..self.type_count {
            if self.type_at(i).is_some_and(|known| known.same(&t)) {
                return Some(PENDING + i);
            }
        }
        let Some(place) = self.types.get_mut(usize::from(self.type_count)) else {
            self.too_many = true;
            return None;
        };
        place.write(t);
        self.type_count += 1;
        Some(PENDING + self.type_count - 1)
    }

    fn type_at(&self, i: u8) -> Option<Target> {
        let t = self
            .types
            .get(usize::from(i))
            .filter(|_| i < self.type_count)?;
        // SAFETY: invariant "Written before it is read": written when the type was first seen.
        Some(unsafe { t.assume_init() })
    }
}

/// The result of a walk.
pub(crate) struct Reachable<'r> {
    pub(crate) marks: Marks<'r>,
    pub(crate) count: u16,
    /// Reachable objects with handles that are damaged.
    pub(crate) damaged: u16,
}

/// Walks from the root and marks reachable objects in `ram`. With `opens`, an object whose value is
/// invalid is marked as lost on the medium.
pub(crate) fn walk<'r, S: Medium, P: Promise>(
    store: &mut Store<S, P>,
    ram: &'r mut [u8],
    root: &HandleKind,
    opens: bool,
) -> Result<Reachable<'r>, Fail> {
    let objects = store.objects();
    let len = usize::from(objects) / 2 + 1;
    let too_small = |content: usize| Fail::ram_too_small((len + content).next_multiple_of(8) + 8);
    // Contents are aligned to 8.
    let Some((bits, scratch)) = ram.split_at_mut_checked(len) else {
        return Err(too_small(0));
    };
    let skip = scratch.as_ptr().align_offset(8).min(scratch.len());
    let (_, content) = scratch.split_at_mut(skip);
    const { assert!(NONE == 0) };
    // SAFETY: invariant "Written before it is read": as many bytes.
    unsafe { zero(bits.as_mut_ptr(), bits.len()) }
    let mut walk = Walk {
        marks: Marks { bits },
        types: [const { MaybeUninit::uninit() }; TYPES],
        type_count: 0,
        known: HandleRange { objects },
        low: u16::MAX,
        count: 0,
        too_many: false,
    };
    // A new walk has space for a type, and the root's number is valid.
    let mut damaged = 0;
    let mut next = match walk.handle(ROOT.into(), root) {
        Ok(()) => 1,
        Err(_) => return Err(Fail::TABLE),
    };
    while next <= objects {
        let mark = walk.marks.get(next);
        if mark < PENDING {
            next += 1;
            continue;
        }
        walk.marks.set(next, DONE);
        if let Some(t) = walk.type_at(mark - PENDING) {
            let Some(value) = content.get_mut(..t.size) else {
                return Err(too_small(t.size));
            };
            match store.read_object(next, value) {
                // Its handles are unknown; go on with the others.
                Err(f) if f.is_damage() && next != ROOT => {
                    damaged += 1;
                    next += 1;
                    continue;
                }
                r => r?,
            }
            walk.low = u16::MAX;
            // SAFETY: invariant "Checked before it is a value": as many initialised bytes as a
            // value of this type has, aligned to 8.
            let r = unsafe { (t.check)(value.as_ptr(), &mut walk) };
            if walk.too_many {
                return Err(Fail::TYPES);
            }
            if r.is_err() && !planted!("vnv-heap/walk-accepts-all") {
                // Its check is right, so a read would return it as valid. Only an open may mark it
                // as lost.
                if next == ROOT || !opens {
                    return Err(Fail::damaged(next));
                }
                store.image().mark_lost(next)?;
                damaged += 1;
            }
            // Objects seen just now may have lower numbers.
            next = walk.low.min(next + 1);
        }
    }
    Ok(Reachable {
        marks: walk.marks,
        count: walk.count,
        damaged,
    })
}
