//! Handles that are found while stored bytes are checked, and who decides about them.

use super::{Invalid, Persist};

/// A function that checks the bytes of one value; [`Persist::check`] of some type.
pub type CheckFn = unsafe fn(*const u8, &mut dyn Visit) -> Result<(), Invalid>;

/// What a handle leads to, as far as it must be known to check it.
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

    /// Bytes of which no type tells the number.
    pub const fn bytes(size: usize, check: CheckFn) -> Self {
        Target {
            size,
            check,
            #[cfg(miri)]
            name: || "",
        }
    }

    /// Whether both are checked alike.
    ///
    /// A check may have several addresses, and two types one if their checks are the same code: either is harmless, because
    /// size and check are all that counts. Miri makes up a new address for every mention of a function.
    pub fn same(&self, other: &Target) -> bool {
        #[cfg(miri)]
        let same = (self.name)() == (other.name)();
        #[cfg(not(miri))]
        let same = core::ptr::fn_addr_eq(self.check, other.check);
        self.size == other.size && same
    }
}

/// A kind of handle, found while checking.
#[derive(Clone, Copy)]
pub struct HandleKind {
    /// Which library's handle, and of what width.
    pub family: &'static str,
    /// Whether what it leads to may hold handles itself.
    pub handles: bool,
    /// What it leads to.
    pub target: Target,
    id: u32,
}

impl HandleKind {
    /// A handle of this family to a `T`. `id` is a [`family_id`].
    pub const fn of<T: Persist>(family: &'static str, id: u32) -> Self {
        Self::new(family, id, Target::of::<T>(), T::HANDLES)
    }

    /// A handle of this family to something else.
    pub const fn new(family: &'static str, id: u32, target: Target, handles: bool) -> Self {
        HandleKind {
            family,
            handles,
            target,
            id,
        }
    }

    /// Which kind of handle of the family it is; more than 7 if it is of another.
    #[inline(always)]
    pub fn kind(&self, family_id: u32) -> u32 {
        self.id ^ family_id
    }
}

/// A number for the name of a library's family of handles; its low 3 bits are zeros, to which a library may add which of
/// several kinds a handle is. FNV-1a, 32 bits.
pub const fn family_id(name: &str) -> u32 {
    let (bytes, mut i, mut h) = (name.as_bytes(), 0, 0x811C_9DC5_u32);
    while i < bytes.len() {
        h = (h ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    h & !7
}

/// Receives the handles found by a check: the owner of the memory decides whether each is valid.
pub trait Visit {
    /// A stored handle of this kind, with this number.
    ///
    /// Must not call [`Target::check`] before it returns: the owner keeps a work list, so that a hostile image cannot
    /// make it recurse.
    fn handle(&mut self, value: u32, kind: &HandleKind) -> Result<(), Invalid>;

    /// The session of the handle that was accepted last, where `given` is the caller's: 0, which no pool has, for one that
    /// is only to be compared.
    fn session(&mut self, given: u32) -> u32 {
        given
    }
}

/// For values that hold no handle: any is refused.
pub struct NoHandles;
impl Visit for NoHandles {
    fn handle(&mut self, _: u32, kind: &HandleKind) -> Result<(), Invalid> {
        Err(Invalid::Family(kind.family))
    }
}
