//! Failure models of memory-mapped media.

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
    /// The low bits of `v`.
    fn truncate(v: u32) -> Self;
    /// The unit as a number.
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

/// What a power cut may leave of the stores to a memory-mapped medium.
///
/// A unit is old or new. On an in-order medium (`BUFFERED == false`) the stores that persisted are a prefix of
/// the program's stores; on a buffered one they are everything before the last [`Model::fence`] and any subset
/// of what came after it. A model of your own says so by these constants and gives the fence that makes it true
/// (a `DSB`, a cache clean).
///
/// # Safety
/// Libraries call [`fence`](Model::fence) in the middle of their operations, where their state is half changed. So it returns,
/// and it does not unwind. It runs no code of a library that is on a medium: no pool, no heap, no transaction, no
/// access to a [`Region`](crate::Region), whoever owns it. It touches no object that a library has lent.
/// It has no such code run, either: it waits for no thread and no interrupt that does this.
///
/// `Unit` and `BUFFERED` are what the medium does. Where `BUFFERED` is true, `fence` orders the stores as it promises; this much
/// no test on the device will notice, and after a power cut a library then finds what it takes for a value and
/// is none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no failure model of a mapped medium",
    label = "says nothing about what a power cut leaves",
    note = "use `nvmem::InOrder16`, `nvmem::InOrder32` or `nvmem::Buffered32`; a model of your own is an `unsafe impl nvmem::Model`"
)]
pub unsafe trait Model: Sized + 'static {
    /// The atomic unit.
    type Unit: Unit;
    /// Whether stores may persist out of program order until the next fence.
    const BUFFERED: bool;
    /// The name in reports and failure lines; another one for each model.
    const NAME: &'static str;
    /// Everything stored before persists before anything stored after. Never called when `!BUFFERED`.
    ///
    /// It knows no medium, because an instruction as `DSB` does not: where a program has two mapped media, a fence of one
    /// model is taken to fence all media of that model and none of another. So two that are drained in different ways, or
    /// at different times, need two models with two names; `powerfail` then finds where one was fenced and the other meant.
    fn fence() {}

    /// Whether [`Model::section`] keeps other threads of control out.
    #[doc(hidden)]
    const PREEMPTED: bool = false;
    /// Runs `f` once, and no other thread of control runs what it gives to this function meanwhile.
    /// By itself it does not keep anyone out: what is on the medium belongs to one thread.
    #[doc(hidden)]
    #[inline(always)]
    fn section<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// FRAM behind a 16-bit core: MSP430FR5994. Units of 2 bytes, in program order; a `u32` store is two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder16 {}
// SAFETY: invariant "A fence is nothing else": FRAM stores whole words in program order, and there is no fence.
unsafe impl Model for InOrder16 {
    type Unit = u16;
    const BUFFERED: bool = false;
    const NAME: &'static str = "in-order-16";
}

/// RAM that keeps its content, or stands for MRAM, behind a 32-bit core without a cache. Units of 4 bytes, in
/// program order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder32 {}
// SAFETY: invariant "A fence is nothing else": a core without a cache and a store buffer stores whole words in program order, and there is no fence.
unsafe impl Model for InOrder32 {
    type Unit = u32;
    const BUFFERED: bool = false;
    const NAME: &'static str = "in-order-32";
}

/// A 32-bit core with a store buffer that a memory barrier drains. Units of 4 bytes; between two fences any
/// subset of the stores may persist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffered32 {}
// SAFETY: invariant "A fence is nothing else": the unit is a machine word, and the fence is the core's barrier and nothing else.
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
