//! Layouts as facts that can be walked: for the fingerprint, the inspector and the field names in reports.

use crate::fnv::times_prime;
use crate::persist::Persist;
use crate::planted;
use core::mem::MaybeUninit;

/// One fact about a layout, in declaration order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A scalar of this name: `u32`, `bool`, …
    Scalar(&'a str),
    /// A compound begins: a struct, an enum, an array.
    Open {
        /// The type's name without path and generics.
        name: &'a str,
        /// Size in bytes.
        size: usize,
        /// Alignment in bytes.
        align: usize,
    },
    /// The value of a const generic, or an array's length.
    Param(u128),
    /// An enum variant follows; its fields come after it.
    Variant {
        /// The variant's name.
        name: &'a str,
        /// Its discriminant.
        tag: i128,
    },
    /// A field follows. `offset` is in bytes from the start of the compound.
    Field {
        /// The field's name, or its index.
        name: &'a str,
        /// Offset in its compound.
        offset: usize,
    },
    /// The field is over.
    EndField,
    /// The compound is over.
    Close,
    /// A handle of this kind; the type that it leads to is described later, once.
    Handle(&'a str),
}

/// Receives the facts.
pub trait Sink {
    /// The next fact.
    fn item(&mut self, item: Item<'_>);
}

impl<F: FnMut(Item<'_>)> Sink for F {
    fn item(&mut self, item: Item<'_>) {
        self(item)
    }
}

/// How many different types may be reached through handles.
pub const MAX_POINTEES: usize = 32;

type Pointee = (&'static str, fn(&mut Describe<'_>));

/// A walk over a layout.
pub struct Describe<'s> {
    sink: &'s mut dyn Sink,
    /// The first `known` are initialised.
    pointees: [MaybeUninit<Pointee>; MAX_POINTEES],
    known: usize,
    overflow: bool,
}

impl<'s> Describe<'s> {
    /// Walks the layout of `T` and of every type that its handles lead to, each once.
    ///
    /// **Errors**: `Err(TooManyTypes)` beyond [`MAX_POINTEES`] types behind handles.
    pub fn walk<T: Persist>(sink: &'s mut dyn Sink) -> Result<(), TooManyTypes> {
        Self::walk_from(sink, T::describe)
    }

    fn walk_from(sink: &'s mut dyn Sink, root: fn(&mut Self)) -> Result<(), TooManyTypes> {
        let mut d = Describe {
            sink,
            pointees: [const { MaybeUninit::uninit() }; MAX_POINTEES],
            known: 0,
            overflow: false,
        };
        root(&mut d);
        let mut i = 0;
        while let Some(&(_, f)) = d.pointees().get(i)
            && !planted!("nvmem/fingerprint-stops-at-handles")
        {
            f(&mut d);
            i += 1;
        }
        if d.overflow {
            Err(TooManyTypes)
        } else {
            Ok(())
        }
    }

    fn pointees(&self) -> &[Pointee] {
        // SAFETY: the first `known` are initialised, and there are not more than `MAX_POINTEES`.
        unsafe { core::slice::from_raw_parts(self.pointees.as_ptr().cast(), self.known) }
    }

    /// A scalar.
    pub fn scalar(&mut self, name: &str) {
        self.sink.item(Item::Scalar(name))
    }

    /// A compound type `T` of this name.
    pub fn compound<T>(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.open(name, size_of::<T>(), align_of::<T>());
        inside(self);
        self.close();
    }

    #[inline(never)]
    fn open(&mut self, name: &str, size: usize, align: usize) {
        self.sink.item(Item::Open { name, size, align })
    }

    #[inline(never)]
    fn close(&mut self) {
        self.sink.item(Item::Close)
    }

    /// A const generic's value.
    pub fn param(&mut self, v: u128) {
        self.sink.item(Item::Param(v))
    }

    /// An enum variant.
    pub fn variant(&mut self, name: &str, tag: i128) {
        self.sink.item(Item::Variant { name, tag })
    }

    /// A field of type `F`.
    pub fn field<F: Persist>(&mut self, name: &str, offset: usize) {
        self.field_by(name, offset, F::describe)
    }

    /// A field whose type is described by this function.
    pub fn field_by(&mut self, name: &str, offset: usize, describe: impl FnOnce(&mut Self)) {
        self.sink.item(Item::Field { name, offset });
        describe(self);
        self.sink.item(Item::EndField);
    }

    /// A handle of this kind that leads to a `T`.
    pub fn handle<T: Persist>(&mut self, kind: &str) {
        self.lead(kind, (core::any::type_name::<T>(), T::describe))
    }

    #[inline(never)]
    fn lead(&mut self, kind: &str, to: Pointee) {
        self.sink.item(Item::Handle(kind));
        if self.pointees().iter().any(|(n, _)| same_text(n, to.0)) {
            return;
        }
        match self.pointees.get_mut(self.known) {
            Some(slot) => {
                slot.write(to);
                self.known += 1;
            }
            None => self.overflow = true,
        }
    }
}

/// Whether two names are the same. Without the library's comparison of memory, which a small program may not have yet.
#[doc(hidden)]
#[inline(never)]
pub fn same_text(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(a, b)| a == b)
}

/// More than [`MAX_POINTEES`] types are reached through handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TooManyTypes;

impl core::fmt::Display for TooManyTypes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "more than {MAX_POINTEES} types are reached through handles"
        )
    }
}
impl core::error::Error for TooManyTypes {}

/// FNV-1a, 64 bits.
struct Fnv(u64);
impl Fnv {
    #[inline(never)]
    fn bytes(&mut self, b: &[u8]) {
        for &b in b {
            self.0 = times_prime(self.0 ^ b as u64);
        }
    }
    #[inline(never)]
    fn text(&mut self, tag: u8, s: &str) {
        self.bytes(&[tag]);
        self.bytes(&(s.len() as u32).to_le_bytes());
        self.bytes(s.as_bytes());
    }
    #[inline(never)]
    fn num(&mut self, v: u128) {
        self.bytes(&v.to_le_bytes())
    }
}

impl Sink for Fnv {
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Scalar(n) => self.text(1, n),
            Item::Open { name, size, align } => {
                self.text(2, name);
                self.num(size as u128);
                self.num(align as u128);
            }
            Item::Param(v) => {
                self.text(3, "");
                self.num(v);
            }
            Item::Variant { name, tag } => {
                self.text(4, name);
                if !planted!("nvmem/fingerprint-without-tags") {
                    self.num(tag as u128);
                }
            }
            Item::Field { name, offset } => {
                if !planted!("nvmem/fingerprint-without-names") {
                    self.text(5, name);
                }
                self.num(offset as u128);
            }
            Item::EndField => self.text(6, ""),
            Item::Close => self.text(7, ""),
            Item::Handle(kind) => self.text(8, kind),
        }
    }
}

/// The layout fingerprint of `T`: names, types and offsets of fields in order, sizes, alignments, enum
/// discriminants, const generic values, the target's endianness and pointer width, and the same of every type that
/// handles lead to.
///
/// **Cost**: a walk over the layout, some ten instructions per character of a name (on MSP430 a hundred); no memory access to
/// the medium.
/// **Errors**: [`TooManyTypes`].
pub fn fingerprint<T: Persist>() -> Result<u64, TooManyTypes> {
    let mut h = Fnv(0xcbf2_9ce4_8422_2325);
    h.num(u128::from(cfg!(target_endian = "big")));
    // The pointer width has no part in any persistable type, but in what `usize` arithmetic of a program means.
    h.num(size_of::<usize>() as u128);
    Describe::walk::<T>(&mut h)?;
    Ok(h.0)
}
