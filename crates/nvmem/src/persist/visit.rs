//! Handles found while stored bytes are checked, and the visitor that accepts or refuses them.

use super::{Invalid, Persist};

/// A function that checks the bytes of one value: the [`Persist::check`] of a type.
pub type CheckFn = unsafe fn(*const u8, &mut dyn Visit) -> Result<(), Invalid>;

/// The target of a handle: its size, and how to check its bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Size in bytes.
    pub size: usize,
    /// How to check it.
    pub check: CheckFn,
    #[cfg(miri)]
    name: fn() -> &'static str,
}

impl Target {
    /// A value of this type.
    pub const fn of<T: Persist>() -> Self {
        Target {
            size: size_of::<T>(),
            check: T::check,
            #[cfg(miri)]
            name: core::any::type_name::<T>,
        }
    }

    /// A target of `size` bytes, if no type has this size.
    pub const fn bytes(size: usize, check: CheckFn) -> Self {
        Target {
            size,
            check,
            #[cfg(miri)]
            name: || "",
        }
    }

    /// Whether both have the same size and check.
    ///
    /// One check may have several addresses, and two types with identical code may share one. Both
    /// are harmless, because only size and check count. Miri invents a new address for each mention
    /// of a function, so there names are compared.
    pub fn same(&self, other: &Target) -> bool {
        #[cfg(miri)]
        let same = (self.name)() == (other.name)();
        #[cfg(not(miri))]
        let same = core::ptr::fn_addr_eq(self.check, other.check);
        self.size == other.size && same
    }
}

/// The kind of a handle that a check found.
#[derive(Clone, Copy)]
pub struct HandleKind {
    /// The handle family: the library, and the handle's width.
    pub family: &'static str,
    /// Whether the target may hold handles itself.
    pub handles: bool,
    /// The target.
    pub target: Target,
    id: u32,
}

impl HandleKind {
    /// A handle of this family to a `T`. `id` is a [`family_id`].
    pub const fn of<T: Persist>(family: &'static str, id: u32) -> Self {
        Self::new(family, id, Target::of::<T>(), T::HANDLES)
    }

    /// A handle of this family to a target that is not described by a type.
    pub const fn new(family: &'static str, id: u32, target: Target, handles: bool) -> Self {
        HandleKind {
            family,
            handles,
            target,
            id,
        }
    }

    /// Which kind of the family this is, 0 to 7. More than 7 if it belongs to another family.
    #[inline(always)]
    pub fn kind(&self, family_id: u32) -> u32 {
        self.id ^ family_id
    }
}

/// A number for the name of a handle family: 32-bit FNV-1a with the low 3 bits zero. A library may
/// add the kind of a handle in these bits.
pub const fn family_id(name: &str) -> u32 {
    let (bytes, mut i, mut h) = (name.as_bytes(), 0, 0x811C_9DC5_u32);
    while i < bytes.len() {
        h = (h ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    h & !7
}

/// Receives the handles that a check finds, and decides whether each is valid. The owner of the
/// memory implements it.
pub trait Visit {
    /// A stored handle of this kind, with this value. **Errors**: the handle is not valid.
    ///
    /// Must not call [`Target::check`] if the target may hold handles itself: the implementation
    /// keeps a work list instead, so that a hostile image cannot make it recurse.
    fn handle(&mut self, value: u32, kind: &HandleKind) -> Result<(), Invalid>;

    /// The session for the handle accepted last. `given` is the caller's session. Returns 0, which
    /// no pool has, if the handle is only compared.
    fn session(&mut self, given: u32) -> u32 {
        given
    }
}

/// Refuses every handle: for values that hold none.
pub struct NoHandles;
impl Visit for NoHandles {
    fn handle(&mut self, _: u32, kind: &HandleKind) -> Result<(), Invalid> {
        Err(Invalid::Family(kind.family))
    }
}
