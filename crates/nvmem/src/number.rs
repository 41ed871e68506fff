//! The numbers of commits, and whose they are.
//!
//! ```text
//! last_committed(region of B) -> 3 of B      what is staged with a number of A is resolved
//! commit of A                 -> 4 of A      by a number of A only: 4 of A and 3 of B are
//!                                            no neighbours
//! ```
//!
//! A number is 3 to 16 bits on the medium. In RAM it knows its owner, so a structure that resolves
//! by the numbers of one owner refuses those of another one before it stores anything. It also
//! borrows the region that it was read from: once the region is opened, the number is out of date,
//! and a use of it does not compile.

use crate::{Model, Region};
use core::marker::PhantomData;

/// Whose commits a number counts: those of one thread of one region, or those that the program
/// counts itself. It says nothing beyond this power-on period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NumberOwner(usize);

impl NumberOwner {
    /// A program that counts its own commits.
    pub const PROGRAM: NumberOwner = NumberOwner(0);

    /// A thread whose commits lie in this region. A region has more bytes than threads, so no two
    /// owners are equal.
    pub fn thread_of<M: Model>(region: &Region<'_, M>, thread: usize) -> Self {
        Self::at(region.base()).thread(thread)
    }

    /// The first thread of the region that begins here.
    pub fn at(base: *mut u8) -> Self {
        NumberOwner(base.addr())
    }

    /// The owner `n` threads after this one, in the same region.
    #[inline(always)]
    pub const fn thread(self, n: usize) -> Self {
        NumberOwner(self.0.wrapping_add(n))
    }
}

/// The number of a commit, and whose it is: of the commit that is about to be made, or of the last
/// one that was found on the medium. `'o` is the time for which it stays the last one: it ends when
/// the owner opens its region, since it may commit again then.
///
/// A `u32` is a number of the program's own: [`NumberOwner::PROGRAM`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CommitNumber<'o> {
    owner: NumberOwner,
    number: u32,
    _until_opened: PhantomData<&'o ()>,
}

impl CommitNumber<'_> {
    /// A number of this owner; 0 for no commit. Only the owner makes it, and gives it the borrow of
    /// its region.
    #[inline(always)]
    pub const fn new(owner: NumberOwner, number: u32) -> Self {
        CommitNumber {
            owner,
            number,
            _until_opened: PhantomData,
        }
    }

    /// Whose it is.
    #[inline(always)]
    pub const fn owner(self) -> NumberOwner {
        self.owner
    }

    /// The number alone.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.number
    }
}

impl From<u32> for CommitNumber<'_> {
    fn from(number: u32) -> Self {
        CommitNumber::new(NumberOwner::PROGRAM, number)
    }
}

/// The number is one of another owner. Nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WrongOwner;

impl core::fmt::Display for WrongOwner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "the commit is one of another region or thread than the structure was opened with",
        )
    }
}
impl core::error::Error for WrongOwner {}
