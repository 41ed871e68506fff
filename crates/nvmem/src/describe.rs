//! Layout descriptions as constants, and the fingerprint computed from them at compile time.
//!
//! [`Persist::LAYOUT`] describes a type's own bytes. [`Persist::HandleTargets`] lists the types
//! that its handles refer to. They are separate because a list's node refers to itself: a constant
//! cannot contain itself, a list of types can.
//!
//! The fingerprint follows up to [`REACH`] handles. It uses one type per number of handles left, so
//! that each step is a constant of its own:
//!
//! ```text
//! Reachable<Node, DepthMore<DepthMore<DepthEnd>>>::HASH
//!   = hash of Node::LAYOUT and of its handle targets with one handle less:
//!       Reachable<Node, DepthMore<DepthEnd>>::HASH
//!         = ...
//!             Reachable<Node, DepthEnd>::HASH  = hash of Node::LAYOUT alone
//! ```

use crate::persist::Persist;
use crate::planted;
use core::marker::PhantomData;

/// The layout of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// A scalar of this name: `u32`, `bool`, …
    Scalar(&'static str),
    /// A struct, enum or array.
    Compound {
        /// The type's name without path and generics.
        name: &'static str,
        /// Size in bytes.
        size: usize,
        /// Alignment in bytes.
        align: usize,
        /// The values of const generics, or an array's length. A value of a type other than `usize`
        /// has a number for its type in the upper half.
        params: &'static [u128],
        /// Variants and fields, in order of declaration.
        members: &'static [Member],
    },
    /// A handle of this family. Its target is in [`Persist::HandleTargets`].
    Handle(&'static str),
}

/// A member of a compound type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Member {
    /// An enum variant; its fields follow.
    Variant {
        /// The variant's name.
        name: &'static str,
        /// The variant's discriminant.
        tag: i128,
    },
    /// A field.
    Field {
        /// The field's name, or its index.
        name: &'static str,
        /// Offset in bytes from the start of the compound.
        offset: usize,
        /// Its type.
        of: &'static Type,
    },
}

/// A list of the types that a type's handles refer to, in order: `()` for none, [`HandleTo`] for
/// one, and tuples of such lists.
pub trait HandleTargets {
    #[doc(hidden)]
    type Within<D: Depth>: Hashed;
}

/// A list of one handle, to a `T`.
pub struct HandleTo<T>(PhantomData<fn(T) -> T>);

impl<T: Persist> HandleTargets for HandleTo<T> {
    type Within<D: Depth> = D::Target<T>;
}

/// How many more handles the fingerprint follows.
#[doc(hidden)]
pub trait Depth {
    type Target<T: Persist>: Hashed;
}

/// A type with a constant hash.
#[doc(hidden)]
pub trait Hashed {
    const HASH: u64;
}

/// No more handles are followed. `FACTS` selects the hashed facts: all of them, except under a
/// planted bug.
#[doc(hidden)]
pub struct DepthEnd<const FACTS: u8>;
impl<const FACTS: u8> Depth for DepthEnd<FACTS> {
    type Target<T: Persist> = ();
}

/// Follows one more handle than `D`.
#[doc(hidden)]
pub struct DepthMore<D>(D);
impl<D: Depth + Facts> Depth for DepthMore<D> {
    type Target<T: Persist> = Reachable<T, D>;
}

/// Which facts are hashed.
#[doc(hidden)]
pub trait Facts {
    const FACTS: u8;
}
impl<const FACTS: u8> Facts for DepthEnd<FACTS> {
    const FACTS: u8 = FACTS;
}
impl<D: Facts> Facts for DepthMore<D> {
    const FACTS: u8 = D::FACTS;
}

/// The hash of `T` and of the types that its handles reach within depth `D`.
#[doc(hidden)]
pub struct Reachable<T, D>(PhantomData<(T, D)>);
impl<T: Persist, D: Depth + Facts> Hashed for Reachable<T, D> {
    const HASH: u64 = Hash::new(D::FACTS)
        .layout(T::LAYOUT)
        .number(<<T::HandleTargets as HandleTargets>::Within<D> as Hashed>::HASH)
        .value;
}

impl Hashed for () {
    const HASH: u64 = 0;
}

macro_rules! tuples {
    ($($($n:ident)+;)*) => {$(
        impl<$($n: HandleTargets),+> HandleTargets for ($($n,)+) {
            type Within<D: Depth> = ($($n::Within<D>,)+);
        }
        impl<$($n: Hashed),+> Hashed for ($($n,)+) {
            const HASH: u64 = Hash::new(0)$(.number($n::HASH))+.value;
        }
    )*};
}
tuples! {
    T0;
    T0 T1;
    T0 T1 T2;
    T0 T1 T2 T3;
    T0 T1 T2 T3 T4;
    T0 T1 T2 T3 T4 T5;
    T0 T1 T2 T3 T4 T5 T6;
    T0 T1 T2 T3 T4 T5 T6 T7;
}
impl HandleTargets for () {
    type Within<D: Depth> = ();
}

/// FNV-1a, 64 bits.
struct Hash {
    value: u64,
    facts: u8,
}

/// Facts: hash discriminants, hash field names.
const TAGS: u8 = 1;
const NAMES: u8 = 2;

impl Hash {
    const fn new(facts: u8) -> Self {
        let value = 0xcbf2_9ce4_8422_2325;
        Hash { value, facts }
    }
    const fn byte(self, b: u8) -> Self {
        let value = (self.value ^ b as u64).wrapping_mul(0x100_0000_01b3);
        Hash { value, ..self }
    }
    const fn number(mut self, v: u64) -> Self {
        let (le, mut i) = (v.to_le_bytes(), 0);
        while i < le.len() {
            self = self.byte(le[i]);
            i += 1;
        }
        self
    }
    const fn long(self, v: u128) -> Self {
        self.number(v as u64).number((v >> 64) as u64)
    }
    const fn text(mut self, kind: u8, s: &str) -> Self {
        let (s, mut i) = (s.as_bytes(), 0);
        self = self.byte(kind).number(s.len() as u64);
        while i < s.len() {
            self = self.byte(s[i]);
            i += 1;
        }
        self
    }

    const fn layout(self, t: &Type) -> Self {
        let (mut h, params, members) = match *t {
            Type::Scalar(name) => return self.text(1, name),
            Type::Handle(kind) => return self.text(2, kind),
            Type::Compound {
                name,
                size,
                align,
                params,
                members,
            } => {
                let h = self.text(3, name).number(size as u64);
                (h.number(align as u64), params, members)
            }
        };
        let mut i = 0;
        while i < params.len() {
            h = h.byte(4).long(params[i]);
            i += 1;
        }
        i = 0;
        while i < members.len() {
            h = h.member(&members[i]);
            i += 1;
        }
        h.byte(7)
    }

    const fn member(self, p: &Member) -> Self {
        match *p {
            Member::Variant { name, tag } => {
                let h = self.text(5, name);
                if h.facts & TAGS != 0 {
                    h.long(tag as u128)
                } else {
                    h
                }
            }
            Member::Field { name, offset, of } => {
                let name = if self.facts & NAMES != 0 { name } else { "" };
                self.text(6, name).number(offset as u64).layout(of)
            }
        }
    }
}

/// Hashes a 128-bit const generic to 64 bits, to leave space for its type.
pub(crate) const fn mixed(v: u128) -> u64 {
    Hash::new(0).long(v).value
}

/// The length of the longest chain of handles that a fingerprint follows. A pool of `pmem-tx`
/// refuses more than 13 types behind handles, so the fingerprint reaches every type of a pool.
pub const REACH: usize = 16;

type Four<D> = DepthMore<DepthMore<DepthMore<DepthMore<D>>>>;
type FullDepth<const FACTS: u8> = Four<Four<Four<Four<DepthEnd<FACTS>>>>>;

/// The layout fingerprint of `T`. It covers names, types and offsets of fields in order, sizes,
/// alignments, enum discriminants, const generic values, and the target's endianness and pointer
/// width. It covers the same of every type reachable through at most [`REACH`] handles.
///
/// It does not cover the type's module, so a type may move. But two types with the same name and
/// fields in two modules have the same fingerprint, and a stored value of one is accepted as the
/// other, even if its module restricts its private fields. If a program stores both, give them
/// different names.
///
/// **Cost**: none, it is a constant.
pub fn fingerprint<T: Persist>() -> u64 {
    if planted!("nvmem/fingerprint-stops-at-handles") {
        return fingerprint_to::<T, DepthEnd<{ TAGS | NAMES }>>();
    }
    if planted!("nvmem/fingerprint-without-tags") {
        return fingerprint_to::<T, FullDepth<NAMES>>();
    }
    if planted!("nvmem/fingerprint-without-names") {
        return fingerprint_to::<T, FullDepth<TAGS>>();
    }
    fingerprint_to::<T, FullDepth<{ TAGS | NAMES }>>()
}

/// The hash of the layout of `T`, as in [`fingerprint`], but equal on all targets for types that
/// are equal there.
pub(crate) const fn layout_hash<T: Persist>() -> u64 {
    <Reachable<T, FullDepth<{ TAGS | NAMES }>> as Hashed>::HASH
}

/// The hash of a type that is made of others: its name, then their hashes in order.
pub(crate) const fn compound_hash(name: &str, of: &[u64]) -> u64 {
    let (mut h, mut i) = (Hash::new(0).text(8, name), 0);
    while i < of.len() {
        h = h.number(of[i]);
        i += 1;
    }
    h.value
}

#[inline(always)]
fn fingerprint_to<T: Persist, D: Depth + Facts>() -> u64 {
    const {
        // No persistable type contains a pointer, but the pointer width changes the results of
        // `usize` arithmetic.
        Hash::new(0)
            .byte(cfg!(target_endian = "big") as u8)
            .number(size_of::<usize>() as u64)
            .number(<Reachable<T, D> as Hashed>::HASH)
            .value
    }
}
