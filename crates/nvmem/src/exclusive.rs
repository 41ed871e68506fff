//! A value with one borrower at a time, and a byte of marks, for code where each instruction
//! matters.

use core::cell::{Cell, UnsafeCell};

// INVARIANT "One loan": of the value of an `Exclusive` there is one `&mut` at a time. Only a loan
// sets the mark `LENT` and clears it.
// Noticed by: the test of this module, under Miri; the suites of `nv-device`.

/// A value that one caller at a time borrows as `&mut`, and a byte of marks.
///
/// Like a `RefCell`, but the flag for "lent" is one of the marks. So a caller that checks the marks
/// before a call, and changes them after it, needs no second check and store.
///
/// ```
/// use nvmem::Exclusive;
/// let lamp = Exclusive::new(0);
/// lamp.mark(2);
/// assert_eq!(lamp.lend_marked(3, |_| ()), None);
/// assert_eq!(lamp.lend_marked(2, |lit| *lit += 1), Some(()));
/// assert_eq!(lamp.marks(), 0);
/// let second = lamp.lend(|_| lamp.lend(|_| ()));
/// assert_eq!(second, Some(None));
/// ```
pub struct Exclusive<T> {
    marks: Cell<u8>,
    value: UnsafeCell<T>,
}

/// Sets the marks when a loan ends, also if it unwinds.
struct Loan<'a> {
    marks: &'a Cell<u8>,
    /// The marks that stay.
    mask: u8,
}

impl Drop for Loan<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.mask == 0 {
            self.marks.set(0)
        } else {
            self.marks.set(self.marks.get() & self.mask)
        }
    }
}

impl<T> Exclusive<T> {
    /// The mark of a value that is lent. The others are the caller's.
    pub const LENT: u8 = 0x80;

    /// A value without marks.
    pub const fn new(value: T) -> Self {
        Exclusive {
            marks: Cell::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The value.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The marks.
    #[inline(always)]
    pub fn marks(&self) -> u8 {
        self.marks.get()
    }

    /// Adds marks.
    #[inline(always)]
    pub fn mark(&self, more: u8) {
        self.marks.set(self.marks.get() | more & !Self::LENT)
    }

    /// Clears all marks but these.
    #[inline(always)]
    pub fn keep_marks(&self, kept: u8) {
        self.marks.set(self.marks.get() & (kept | Self::LENT))
    }

    /// Lends the value; `None` if it is lent.
    #[inline(always)]
    pub fn lend<O>(&self, f: impl FnOnce(&mut T) -> O) -> Option<O> {
        let marks = self.marks.get();
        if marks & Self::LENT != 0 {
            return None;
        }
        self.marks.set(marks | Self::LENT);
        let _loan = Loan {
            marks: &self.marks,
            mask: !Self::LENT,
        };
        // SAFETY: invariant "One loan": only a loan sets the mark `LENT`, and clears it when it
        // ends. It was not set, so this is the only one. Like a `Cell`, this is not `Sync`.
        Some(f(unsafe { &mut *self.value.get() }))
    }

    /// Lends the value if it has exactly these marks, and clears them when the loan ends.
    #[inline(always)]
    pub fn lend_marked<O>(&self, marks: u8, f: impl FnOnce(&mut T) -> O) -> Option<O> {
        if self.marks.get() != marks & !Self::LENT {
            return None;
        }
        self.marks.set(Self::LENT);
        let _loan = Loan {
            marks: &self.marks,
            mask: 0,
        };
        // SAFETY: invariant "One loan", as in `lend`: the mark was not set.
        Some(f(unsafe { &mut *self.value.get() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn one_loan_at_a_time_also_if_it_unwinds() {
        let value = Exclusive::new(1);
        value.mark(4);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            value.lend(|v| {
                *v = 2;
                assert_eq!(value.lend(|_| ()), None);
                assert_eq!(value.lend_marked(4, |_| ()), None);
                assert_eq!(value.lend_marked(Exclusive::<u8>::LENT, |_| ()), None);
                // The caller's marks end no loan.
                value.keep_marks(0);
                value.mark(2 | Exclusive::<u8>::LENT);
                assert_eq!(value.lend(|_| ()), None);
                panic!("in a loan")
            })
        }));
        assert!(caught.is_err());
        assert_eq!(value.marks(), 2);
        assert_eq!(value.lend_marked(3, |_| ()), None);
        assert_eq!(value.lend_marked(2, |v| *v), Some(2));
        assert_eq!(value.marks(), 0);
    }
}
