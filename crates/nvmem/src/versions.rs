//! A word and two copies of a plain value, for code where each instruction matters: the length is
//! compared once.

use crate::mapped;
use crate::model::{Model, Unit};
use crate::persist::Plain;
use crate::region::Region;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Whether the values of a type have versions, or are in the word itself.
pub trait HasVersions<M, T> {
    /// They have versions.
    const VERSIONS: bool;
}

/// A word, which is the unit at the start of a region, and after it two versions of a value: the
/// word says which one counts. Nothing is read to write the other one.
///
/// The layout is that of a cell of [`tagged::Cells`](crate::tagged::Cells). That type, or
/// [`Region::read_value`], reads the versions back after a boot. Short values may do without
/// versions: `F` decides.
///
/// ```
/// # use nvmem::{HasVersions, InOrder32, Region, Version, Versions};
/// # let mut memory = [core::mem::MaybeUninit::new(0u64); 3];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// struct Always;
/// impl<M, T> HasVersions<M, T> for Always {
///     const VERSIONS: bool = true;
/// }
/// let pair = Versions::<InOrder32, [u32; 2], Always>::new(region).ok_or("too short")?;
/// let counts = Version::FIRST;
/// pair.write(counts.other(), [3, 4]);
/// pair.store_word(counts.other().bits(1));
/// assert_eq!(pair.word(), 1);
/// # Ok::<(), &str>(())
/// ```
pub struct Versions<'m, M, T, F> {
    word: NonNull<u8>,
    _region: PhantomData<Region<'m, M>>,
    _t: PhantomData<fn(T, F) -> T>,
}

/// One of two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(
    /// All bits are the same: then what depends on it is computed without a branch.
    usize,
);

impl Version {
    /// The first one.
    pub const FIRST: Version = Version(0);
    /// The second one.
    pub const SECOND: Version = Version(usize::MAX);

    /// The other one.
    #[inline(always)]
    pub const fn other(self) -> Version {
        Version(!self.0)
    }

    /// 0 for the first one, `second` for the second.
    #[inline(always)]
    pub const fn bits(self, second: u16) -> u32 {
        (self.0 as u16 & second) as u32
    }
}

/// The bytes of the word.
const WORD: usize = 8;

impl<'m, M: Model, T: Plain, F: HasVersions<M, T>> Versions<'m, M, T, F> {
    /// Bytes from a version to the next.
    const STRIDE: usize = crate::tagged::stride::<M, T>();

    /// Bytes of all.
    pub const BYTES: usize = if F::VERSIONS {
        WORD + 2 * Self::STRIDE
    } else {
        WORD
    };

    /// What lies at the start of this region. `None` if it is shorter, or if it holds typed values.
    pub fn new(region: Region<'m, M>) -> Option<Self> {
        if region.len() < Self::BYTES || region.holds_values() {
            return None;
        }
        Some(Versions {
            word: NonNull::new(region.base())?,
            _region: PhantomData,
            _t: PhantomData,
        })
    }

    /// The address of the word.
    pub fn base(&self) -> *mut u8 {
        self.word.as_ptr()
    }

    /// The word.
    #[inline(always)]
    pub fn word(&self) -> u32 {
        // SAFETY: invariant "Inside the region": `new` has compared the length.
        unsafe { mapped::load(self.base().cast::<M::Unit>()).widen() }
    }

    /// Stores the word, without a fence.
    ///
    /// **Power loss**: the old word or the new one. **Cost**: one store.
    #[inline(always)]
    pub fn put_word(&self, word: u32) {
        // SAFETY: invariant "Inside the region": as in `word`. Like a `Cell`, this is not `Sync`.
        unsafe { mapped::store(self.base().cast::<M::Unit>(), M::Unit::truncate(word)) }
    }

    /// Stores the word, and fences.
    ///
    /// **Power loss**, **Cost**: as for [`Versions::put_word`], and a fence.
    #[inline(always)]
    pub fn store_word(&self, word: u32) {
        self.put_word(word);
        mapped::fence::<M>()
    }

    /// Writes a version, with zeros for its padding. It does not count yet: the caller then stores
    /// the word that names it, on a buffered medium after a fence. Nothing happens if there are no
    /// versions.
    ///
    /// **Power loss**: some units of the version are new. **Cost**: the value.
    #[inline(always)]
    pub fn write(&self, version: Version, value: T) {
        if !F::VERSIONS {
            return;
        }
        let off = WORD + (version.0 & Self::STRIDE);
        let at = self.base().wrapping_add(off);
        // The barriers take the address of the word, for which there is a register anyway.
        mapped::end_loans(self.base());
        if mapped::observed() {
            mapped::lend(at, size_of::<T>())
        }
        // SAFETY: invariants "Inside the region" and "Padding is not read": `new` has compared the
        // length, and a region, the word and a stride are aligned; nobody borrows or reads a
        // version, and like a `Cell` this is not `Sync`; written whole, then its padding as zeros.
        unsafe {
            at.cast::<T>().write(value);
            T::clear_padding(at);
        }
        if mapped::observed() {
            mapped::end_loan(at, size_of::<T>())
        }
        mapped::end_loans(self.base());
    }
}
