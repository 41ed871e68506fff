//! Field-wise access: one slot a field, made by the derive, so that a library can log a field when it is first written.

use crate::persist::Persist;

/// Makes a slot for a field. A library that lends persistent data implements it.
///
/// `U` is always [`Persist`]: [`Fields`] cannot be implemented otherwise, and a bound here would only repeat the
/// compiler's words about a field that is not.
///
/// # Safety
/// A slot gives access to nothing but the field that it was made for.
pub unsafe trait FieldAccess: Copy {
    /// Access to one field of type `U`.
    type FieldSlot<U>;

    /// # Safety
    /// `at` is a valid `U` inside an object that the lender has borrowed mutably, `U` is [`Persist`], and no two slots
    /// overlap.
    unsafe fn field_slot<U>(self, at: *mut U) -> Self::FieldSlot<U>;
}

/// A struct whose fields can be lent one by one. `#[derive(Persist)]` implements it for structs with named fields.
///
/// # Safety
/// `project` makes at most one slot for each field, and none outside of the value.
pub unsafe trait Fields: Persist {
    /// The struct of slots.
    type Slots<L: FieldAccess>;

    /// # Safety
    /// `at` is a valid value that `lend` has borrowed mutably.
    unsafe fn project<L: FieldAccess>(at: *mut Self, access: L) -> Self::Slots<L>;
}
