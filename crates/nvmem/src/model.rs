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
pub trait Model: Sized + 'static {
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
}

/// FRAM behind a 16-bit core: MSP430FR5994. Units of 2 bytes, in program order; a `u32` store is two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder16 {}
impl Model for InOrder16 {
    type Unit = u16;
    const BUFFERED: bool = false;
    const NAME: &'static str = "in-order-16";
}

/// RAM that keeps its content, or stands for MRAM, behind a 32-bit core without a cache. Units of 4 bytes, in
/// program order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder32 {}
impl Model for InOrder32 {
    type Unit = u32;
    const BUFFERED: bool = false;
    const NAME: &'static str = "in-order-32";
}

/// A 32-bit core with a store buffer that a memory barrier drains. Units of 4 bytes; between two fences any
/// subset of the stores may persist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffered32 {}
impl Model for Buffered32 {
    type Unit = u32;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-32";
    #[cfg(not(target_arch = "msp430"))]
    #[inline(always)]
    fn fence() {
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst)
    }
}
