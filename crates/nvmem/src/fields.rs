//! Access field by field: the derive makes one field slot per field, so that a library can log a
//! field at its first write.

use crate::persist::Persist;

/// Makes a field slot for a field. Libraries that lend persistent data implement it.
///
/// `U` is always [`Persist`], because [`Fields`] requires it. A bound here would only repeat the
/// compiler's error about a field that is not.
///
/// # Safety
/// A field slot gives access only to its field.
pub unsafe trait FieldAccess: Copy {
    /// Access to a field of type `U`.
    type FieldSlot<U>;

    /// # Safety
    /// `at` is a valid `U` inside an object that the library has borrowed mutably, `U` is
    /// [`Persist`], and no two field slots overlap.
    unsafe fn field_slot<U>(self, at: *mut U) -> Self::FieldSlot<U>;
}

/// A struct whose fields can be lent one by one. `#[derive(Persist)]` implements it for structs
/// with named fields.
///
/// # Safety
/// `project` makes at most one field slot per field, and none outside the value.
pub unsafe trait Fields: Persist {
    /// A struct with one field slot per field.
    type Slots<L: FieldAccess>;

    /// # Safety
    /// `at` is a valid value that the library of `access` has borrowed mutably.
    unsafe fn project<L: FieldAccess>(at: *mut Self, access: L) -> Self::Slots<L>;
}
