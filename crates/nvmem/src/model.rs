//! Failure models of memory-mapped media.

use crate::persist::Persist;
use core::convert::Infallible;
use core::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
}

/// The atomic unit of a memory-mapped medium: a power cut leaves it old or new, never in between.
///
/// Sealed: `u16` and `u32`.
pub trait Unit: sealed::Sealed + Copy + Eq + core::fmt::Debug + 'static {
    /// Size of the unit in bytes; also its alignment.
    const BYTES: usize;
    /// Truncates `v` to the unit.
    fn truncate(v: u32) -> Self;
    /// Widens the unit to 32 bits.
    fn widen(self) -> u32;
}

impl Unit for u16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn truncate(v: u32) -> Self {
        v as u16
    }
    #[inline(always)]
    fn widen(self) -> u32 {
        self as u32
    }
}

impl Unit for u32 {
    const BYTES: usize = 4;
    #[inline(always)]
    fn truncate(v: u32) -> Self {
        v
    }
    #[inline(always)]
    fn widen(self) -> u32 {
        self
    }
}

// INVARIANT "A fence is nothing else": `Model::fence` returns, does not unwind, and runs no code of
// a library that works on a medium. `Model` is an `unsafe trait`, whose implementers promise this.
// Noticed by: tests/ui/model_without_promise.rs.

/// What a power cut may leave of the stores to a memory-mapped medium.
///
/// Each unit is old or new. On an in-order medium (`BUFFERED == false`) a prefix of the program's
/// stores persists. On a buffered medium, all stores before the last [`Model::fence`] persist, and
/// any subset of the later ones. An own model sets these constants and provides the fence (a `DSB`,
/// a cache clean).
///
/// # Safety
/// Libraries call [`fence`](Model::fence) in the middle of their operations, while their state is
/// inconsistent. So `fence`:
///
/// - returns and does not unwind;
/// - runs no library code that works on a medium: no pool, heap, transaction, or access to any
///   [`Region`](crate::Region);
/// - touches no object that a library has lent;
/// - does not wait for a thread or interrupt that does any of this.
///
/// `Unit` and `BUFFERED` describe the medium correctly. If `BUFFERED` is true, `fence` orders the
/// stores as documented. No test on the device can notice a wrong fence; after a power cut, a
/// library may then accept bytes that are not a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a failure model of a mapped medium",
    label = "does not implement `nvmem::Model`",
    note = "use `nvmem::InOrder16`, `nvmem::InOrder32` or `nvmem::Buffered32`, or write an `unsafe impl nvmem::Model` for a model of your own"
)]
pub unsafe trait Model: Sized + 'static {
    /// The atomic unit.
    type Unit: Unit;
    /// Whether stores may persist out of program order until the next fence.
    const BUFFERED: bool;
    /// The name in reports and failure lines; different for each model.
    const NAME: &'static str;
    /// Everything stored before persists before anything stored after. Never called when
    /// `!BUFFERED`.
    ///
    /// A fence takes no medium as argument, because an instruction such as `DSB` does not. A fence
    /// of one model counts as a fence of all media of that model, and of no other. So two mapped
    /// media that are drained differently, or at different times, need two models with two names.
    /// `powerfail` then finds places that fence the wrong one.
    fn fence() {}

    /// Whether a saver reads the region as bytes: see [`Ram`].
    #[doc(hidden)]
    const READ_AS_BYTES: bool = false;
    /// Whether [`Model::section`] excludes other threads and interrupts.
    #[doc(hidden)]
    const PREEMPTED: bool = false;
    /// Runs `f` once as a critical section against other calls of this function. The default
    /// excludes nothing: one thread owns the data on the medium.
    #[doc(hidden)]
    #[inline(always)]
    fn section<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    /// Runs `f` once, excluding other calls of this function. `f` may take long and calls no
    /// [`Model::section`].
    #[doc(hidden)]
    #[inline(always)]
    fn exclusive<R>(f: impl FnOnce() -> R) -> R {
        Self::section(f)
    }
}

/// FRAM behind a 16-bit core, such as the MSP430FR5994. Units of 2 bytes, in program order; a `u32`
/// store is two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder16 {}
// SAFETY: invariant "A fence is nothing else": FRAM stores whole words in program order, and there
// is no fence.
unsafe impl Model for InOrder16 {
    type Unit = u16;
    const BUFFERED: bool = false;
    const NAME: &'static str = "in-order-16";
}

/// Retained RAM or MRAM behind a 32-bit core without a cache. Units of 4 bytes, in program order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder32 {}
// SAFETY: invariant "A fence is nothing else": a core without a cache and a store buffer stores
// whole words in program order, and there is no fence.
unsafe impl Model for InOrder32 {
    type Unit = u32;
    const BUFFERED: bool = false;
    const NAME: &'static str = "in-order-32";
}

/// A 32-bit core with a store buffer that a memory barrier drains. Units of 4 bytes; between two
/// fences any subset of the stores may persist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffered32 {}
// SAFETY: invariant "A fence is nothing else": the unit is a machine word, and the fence is the
// core's barrier and nothing else.
unsafe impl Model for Buffered32 {
    type Unit = u32;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-32";
    #[cfg(not(target_arch = "msp430"))]
    #[inline(always)]
    fn fence() {
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst)
    }
}

// INVARIANT "Saved bytes have values": each byte of a region of the model `Ram` is initialised
// whenever no `&mut` into it is in use. So a saver may read all of them. Libraries clear the
// padding of a value when they write it, and lend a `&mut` only to types without padding
// (`assert_lendable`). Only these regions, and owners of them, are `AtRest`.
// Noticed by: tests/ui/region_not_saved.rs; the `compile_fail` tests of `PBox::get_mut` in
// `pmem-tx` and of `Mirror` in `nv-mirror`; `padding::` of `nv-mirror` and `nv-replay` under Miri,
// and `a_value_that_is_set` in tests/suite/rest.rs of `pmem-tx`; planted `set-leaves-padding`.

/// A region in RAM whose bytes a saver, such as `nv-mirror`, copies to a medium. In everything else
/// it is a region of the model `M`.
///
/// An assignment through a `&mut T` may copy the padding of its source: stale bytes of RAM, which
/// have no value for the compiler. A saver would read them and write them to the medium. So where a
/// library lends a `&mut T` into such a region, a type with padding is an error of the compiler.
/// [`assert_no_padding`](crate::assert_no_padding) says how to do without padding, and finds it
/// where the type is declared.
///
/// An enum with data and a [`Maybe`](crate::Maybe) have padding. A library that writes such a value
/// as a whole writes zeros there, so it may be stored: with `pmem-tx` by `FieldSlot::set`, or in a
/// `Ptr`; in a list of `nvlist` by any operation.
pub struct Ram<M = InOrder32> {
    _never: Infallible,
    _m: PhantomData<fn() -> M>,
}

// SAFETY: invariant "A fence is nothing else": that of `M`.
unsafe impl<M: Model> Model for Ram<M> {
    type Unit = M::Unit;
    const BUFFERED: bool = M::BUFFERED;
    const NAME: &'static str = M::NAME;
    #[inline(always)]
    fn fence() {
        M::fence()
    }
    const READ_AS_BYTES: bool = true;
    const PREEMPTED: bool = M::PREEMPTED;
    #[inline(always)]
    fn section<R>(f: impl FnOnce() -> R) -> R {
        M::section(f)
    }
    #[inline(always)]
    fn exclusive<R>(f: impl FnOnce() -> R) -> R {
        M::exclusive(f)
    }
}

/// Compile-time check that a `&mut T` into a region of the model `M` may be lent: see [`Ram`].
#[doc(hidden)]
pub const fn assert_lendable<T: Persist, M: Model>() {
    assert!(
        !(M::READ_AS_BYTES && T::PADDED),
        "a `&mut` to a type with padding cannot be lent in a region that is saved as bytes, such as that of a mirror: \
         order the fields from large to small, and add a field of type `u8` or `[u8; n]` for each gap; a `Maybe`, or an \
         enum whose variants differ in length, is written as a whole, by `FieldSlot::set` or `Ptr::write`"
    );
}
