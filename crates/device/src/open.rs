//! Opening: formats or recovers the contexts of all devices of a program, in one region.
//!
//! ```text
//! | superblock | item 0 | item 1 | ... |      each item a multiple of 8 bytes
//! ```
//!
//! The superblock's fingerprint covers the kinds and types of all items, in order. A context that
//! is in doubt is resolved here, before any driver is built: so what `restore` gets is committed.

use crate::context::{Own, OwnContext, Resolver, Staged, StagedContext, number_bits};
use crate::error::OpenError;
use nv_replay::Config;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::superblock::{self, State, Superblock};
use nv_replay::nvmem::{CommitNumber, Model, NumberOwner, Plain, Region, Unit};

/// What the program's steps have committed: from
/// [`last_committed`](nv_replay::last_committed). It is good until the runtime is opened: a use
/// after that does not compile.
///
/// ```
/// use nv_device::Committed;
/// use nv_device::nv_replay::{Config, last_committed};
/// # use nv_device::nvmem::{InOrder32, Region};
/// # let mut memory = [const { core::mem::MaybeUninit::new(0u64) }; 64];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// # const TABLE: Config = Config::DEFAULT;
///
/// let number = last_committed(&region)?;
/// let committed = Committed::of(number, &TABLE);
/// # let _ = committed;
/// # Ok::<(), nv_device::nv_replay::OpenError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed<'o> {
    number: CommitNumber<'o>,
    bits: u8,
}

impl Committed<'static> {
    /// No step commits a context: each commits by itself.
    pub const NOTHING: Self = Committed {
        number: CommitNumber::new(NumberOwner::PROGRAM, 0),
        bits: 0,
    };
}

impl<'o> Committed<'o> {
    /// The last committed number of a runtime whose table was formatted with `config`. The contexts
    /// change with the steps of that runtime only.
    pub const fn of(number: CommitNumber<'o>, config: &Config) -> Self {
        Committed {
            number,
            bits: config.seq_bits,
        }
    }

    fn resolver(self) -> Resolver {
        let max = (1u32 << (self.bits & 31)) - 1;
        let number = self.number.get();
        Resolver {
            owner: self.number.owner(),
            in_doubt: if number >= max { 1 } else { number + 1 },
        }
    }
}

/// One of the things that [`open`] opens: [`Own`], [`Staged`] or [`Ring`](crate::Ring). Sealed.
pub trait Item<M: Model>: sealed::Sealed {
    /// Its value in a region that is formatted.
    type Initial;
    /// What it is when it is open.
    type Open<'m>;
    #[doc(hidden)]
    const BYTES: usize;
    #[doc(hidden)]
    const TYPE: u64;
    #[doc(hidden)]
    const DESCRIBED: Described;
    #[doc(hidden)]
    fn format<'m>(
        region: Region<'m, M>,
        initial: Self::Initial,
        by: Numbers,
    ) -> Option<Self::Open<'m>>;
    #[doc(hidden)]
    fn recover<'m>(region: Region<'m, M>, by: Numbers) -> Option<Self::Open<'m>>;
}

/// What the superblock says of an item, for those who read the region without its types.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Described {
    /// A context that commits by itself, of so many bytes.
    Own(usize),
    /// One that commits with a step.
    Staged(usize),
    /// Events of a ring with so many slots.
    Ring(usize),
    /// A context whose bytes have no room in a description.
    Large,
}

impl Described {
    /// The bits of a number of bytes. All are 1: there are more.
    const BITS: u32 = 14;
    const LARGE: usize = (1 << Self::BITS) - 1;

    const fn bits(self) -> u32 {
        let (kind, n) = match self {
            Described::Own(n) => (1, n),
            Described::Staged(n) => (2, n),
            Described::Ring(n) => (3, n),
            Described::Large => (1, Self::LARGE),
        };
        let n = if n < Self::LARGE { n } else { Self::LARGE };
        kind << Self::BITS | n as u32
    }

    /// The description of an item; `None` after the last one.
    pub(crate) fn of(params: &[u32; 8], index: usize) -> Option<Self> {
        let at = DESCRIPTIONS.start + index / 2;
        let bits = params.get(at)? >> (16 * (index % 2)) & 0xFFFF;
        let n = bits as usize & Self::LARGE;
        match bits >> Self::BITS {
            0 => None,
            _ if n == Self::LARGE => Some(Described::Large),
            1 => Some(Described::Own(n)),
            2 => Some(Described::Staged(n)),
            _ => Some(Described::Ring(n)),
        }
    }
}

/// What recovery knows of the program's steps.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Numbers(pub(crate) Resolver);

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl<C> sealed::Sealed for Own<C> {}
impl<C: Plain + Copy, M: Model> Item<M> for Own<C> {
    type Initial = C;
    type Open<'m> = OwnContext<'m, C, M>;
    const BYTES: usize = OwnContext::<C, M>::BYTES;
    const TYPE: u64 = type_hash::<C>(if size_of::<C>() == 0 {
        "device context, own, empty"
    } else {
        "device context, own"
    });
    const DESCRIBED: Described = Described::Own(size_of::<C>());
    fn format<'m>(region: Region<'m, M>, initial: C, _: Numbers) -> Option<Self::Open<'m>> {
        OwnContext::format(region, initial)
    }
    fn recover<'m>(region: Region<'m, M>, _: Numbers) -> Option<Self::Open<'m>> {
        OwnContext::recover(region)
    }
}

impl<C> sealed::Sealed for Staged<C> {}
impl<C: Plain + Copy, M: Model> Item<M> for Staged<C> {
    type Initial = C;
    type Open<'m> = StagedContext<'m, C, M>;
    const BYTES: usize = StagedContext::<C, M>::BYTES;
    const TYPE: u64 = type_hash::<C>(if size_of::<C>() == 0 {
        "device context, staged, empty"
    } else {
        "device context, staged"
    });
    const DESCRIBED: Described = Described::Staged(size_of::<C>());
    fn format<'m>(region: Region<'m, M>, initial: C, by: Numbers) -> Option<Self::Open<'m>> {
        StagedContext::format(region, initial, by.0)
    }
    fn recover<'m>(region: Region<'m, M>, by: Numbers) -> Option<Self::Open<'m>> {
        StagedContext::recover(region, by.0)
    }
}

/// A tuple of 1 to 8 [`Item`]s. Sealed.
pub trait Items<M: Model>: sealed::Sealed {
    /// Their values in a region that is formatted.
    type Initial;
    /// What they are when they are open.
    type Open<'m>;
    #[doc(hidden)]
    const BYTES: usize;
    #[doc(hidden)]
    const TYPE: u64;
    /// Descriptions of the items, for the superblock.
    #[doc(hidden)]
    const DESCRIBED: [u32; 4];
    #[doc(hidden)]
    fn format<'m>(
        region: Region<'m, M>,
        initial: Self::Initial,
        by: Numbers,
    ) -> Result<Self::Open<'m>, OpenError>;
    #[doc(hidden)]
    fn recover<'m>(region: Region<'m, M>, by: Numbers) -> Result<Self::Open<'m>, OpenError>;
}

/// Adds an item's type to a fingerprint.
const fn add(hash: u64, item: u64) -> u64 {
    (hash.rotate_left(5) ^ item).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

macro_rules! items {
    ($($t:ident $v:ident $i:literal),+) => {
        impl<$($t),+> sealed::Sealed for ($($t,)+) {}
        impl<M: Model, $($t: Item<M>),+> Items<M> for ($($t,)+) {
            type Initial = ($($t::Initial,)+);
            type Open<'m> = ($($t::Open<'m>,)+);
            const BYTES: usize = 0 $(+ $t::BYTES)+;
            const TYPE: u64 = {
                let hash = 0;
                $(let hash = add(hash, $t::TYPE);)+
                hash
            };
            const DESCRIBED: [u32; 4] = {
                let mut described = [0; 4];
                $(described[$i / 2] |= $t::DESCRIBED.bits() << (16 * ($i % 2));)+
                described
            };
            fn format<'m>(
                region: Region<'m, M>,
                ($($v,)+): Self::Initial,
                by: Numbers,
            ) -> Result<Self::Open<'m>, OpenError> {
                $(
                    let (item, region) = split::<M>(region, $t::BYTES, Self::BYTES)?;
                    let $v = $t::format(item, $v, by).ok_or(OpenError::Damaged { item: $i })?;
                )+
                let _ = region;
                Ok(($($v,)+))
            }
            fn recover<'m>(region: Region<'m, M>, by: Numbers) -> Result<Self::Open<'m>, OpenError> {
                $(
                    let (item, region) = split::<M>(region, $t::BYTES, Self::BYTES)?;
                    let $v = $t::recover(item, by).ok_or(OpenError::Damaged { item: $i })?;
                )+
                let _ = region;
                Ok(($($v,)+))
            }
        }
    };
}
items!(A a 0);
items!(A a 0, B b 1);
items!(A a 0, B b 1, C c 2);
items!(A a 0, B b 1, C c 2, D d 3);
items!(A a 0, B b 1, C c 2, D d 3, E e 4);
items!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5);
items!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6);
items!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7);

fn split<M: Model>(
    region: Region<'_, M>,
    at: usize,
    needed: usize,
) -> Result<(Region<'_, M>, Region<'_, M>), OpenError> {
    let needed = Superblock::BYTES + needed;
    region
        .split_at(at)
        .map_err(|_| OpenError::TooSmall { needed })
}

/// Bytes of persistent memory for these items.
pub const fn bytes<T: Items<M>, M: Model>() -> usize {
    Superblock::BYTES + T::BYTES
}

/// The superblock's kind, and the format's version.
pub(crate) const KIND: [u8; 4] = *b"DEVC";
pub(crate) const VERSION: u16 = 1;
/// Its parameters: bytes of a unit, bits of the program's numbers, and descriptions of the items,
/// two in each.
pub(crate) const UNIT: usize = 0;
const BITS: usize = 1;
pub(crate) const DESCRIPTIONS: core::ops::Range<usize> = 2..6;

/// Opens the contexts of a program's devices, and its event rings, in a region of their own.
/// Formats a blank region with the `initial` values, or recovers a used one: what steps have staged
/// counts if and only if it is `committed`. Call this at every boot, before the runtime is opened:
/// the runtime's next step takes the number that a cut step has left staged. An update that starts
/// over opens the contexts, too, even if it does not use them.
///
/// Accepts any bytes. **Power loss**: a format begins again; a recovery is repeated. **Cost**:
/// reads the superblock, and each context once. **Errors**: [`OpenError`].
///
/// ```
/// use nv_device::{Committed, Own, Staged, open};
/// # use nv_device::nvmem::{InOrder32, Region};
/// # let mut memory = [const { core::mem::MaybeUninit::new(0u64) }; 32];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// // Which channel a radio is on, and which lamps are lit.
/// let (radio, lamps) = open::<(Own<u16>, Staged<u8>), _>(region, Committed::NOTHING, (7, 0))?;
/// # let _ = (radio, lamps);
/// # Ok::<(), nv_device::OpenError>(())
/// ```
pub fn open<'m, T: Items<M>, M: Model>(
    mut region: Region<'m, M>,
    committed: Committed<'_>,
    initial: T::Initial,
) -> Result<T::Open<'m>, OpenError> {
    let needed = bytes::<T, M>();
    if region.len() < needed {
        return Err(OpenError::TooSmall { needed });
    }
    // As in a table of this model.
    let bits = committed.bits.min(number_bits::<M>());
    let committed = Committed { bits, ..committed };
    let mut params = [0; 8];
    params[UNIT] = M::Unit::BYTES as u32;
    params[BITS] = bits.into();
    for (param, described) in params.iter_mut().skip(DESCRIPTIONS.start).zip(T::DESCRIBED) {
        *param = described;
    }
    let mine = Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint: T::TYPE,
        params,
    };
    let blank = match superblock::probe(&region, &mine) {
        State::Blank | State::Formatting => true,
        State::Ready(stored) => {
            stored.check_layout(&mine).map_err(OpenError::Layout)?;
            if stored.params != mine.params {
                return Err(OpenError::Parameters);
            }
            false
        }
        State::Foreign => return Err(OpenError::Foreign),
        State::Damaged => return Err(OpenError::Superblock),
    };
    let by = Numbers(committed.resolver());
    if !blank {
        let items = split::<M>(region, Superblock::BYTES, T::BYTES)?.1;
        return T::recover(items, by);
    }
    let marker = superblock::begin_marked(&mut region, &mine);
    let (mut head, items) = split::<M>(region, Superblock::BYTES, T::BYTES)?;
    let items = T::format(items, initial, by)?;
    superblock::finish_marked(&mut head, marker, &mine);
    Ok(items)
}
