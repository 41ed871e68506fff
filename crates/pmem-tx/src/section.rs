//! Pools whose contexts preempt each other: the critical section, and the model that uses it.
//!
//! ```text
//! control    --|search|--                     --|search, take|--write the object--|free|-- commit
//! interrupt              |search, take| commit
//!
//! |...|  a critical section: only there are block headers, cell tags, the allocator's
//!        cursor and what a context announces about its journal read and written
//! ```
//!
//! Everything else belongs to one context, so it may be preempted at any instruction. That is why
//! a context of such a pool is `Send`: see the SAFETY comment at the end of this file.

use crate::context::Context;
use core::convert::Infallible;
use core::marker::PhantomData;
use nvmem::Model;

/// A critical section of the program: while one is held, no other context of the pool runs in one.
///
/// Example: a kernel that masks all interrupts, or those that use a context of the pool:
///
/// ```
/// # mod cortex_m { pub fn mask() -> bool { true } pub fn restore(_: bool) {} }
/// enum Masked {}
/// // SAFETY: one core; nothing runs between the two calls but `f`.
/// unsafe impl pmem_tx::Section for Masked {
///     fn with<R>(f: impl FnOnce() -> R) -> R {
///         let before = cortex_m::mask();
///         let r = f();
///         cortex_m::restore(before);
///         r
///     }
/// }
/// ```
///
/// Sections are short, and their length does not depend on the length of the pool:
///
/// | in one section | stores | loads |
/// |---|---|---|
/// | search of an allocation | none | 4 block headers; for each that is free, the journal headers of the contexts in doubt |
/// | last section of an allocation | 4, in order: two words of the journal, one or two block headers | the same, for the free neighbours that are joined |
/// | a block freed, or given back by an abort | 1 | its header |
/// | an entry cleared by an abort | 1 | none |
/// | tags updated by a sweep or an abort | at most 4 | 4 block headers and their tags |
/// | a cell's tag read or written | at most 1 | 1 |
/// | a unit of old content restored by an abort | 1 | 1 |
/// | the pool's session number read or taken, for handles outside | none | none |
///
/// On a buffered medium the last section of an allocation has up to 4 fences; the others have none.
/// A search starts again if another context has joined free blocks since its previous section: at
/// most once for each time that it is preempted.
///
/// Sections are never nested.
///
/// # Safety
/// `with` calls `f` exactly once, on this thread, before it returns, and does not unwind by itself.
/// Of two calls in any threads, interrupts or cores, one `f` ends before the other begins, and the
/// second sees everything the first wrote. So a section is a barrier for the compiler and, with
/// several cores, for the memory.
pub unsafe trait Section: 'static {
    /// Runs `f` while no other context of the pool is in a section.
    fn with<R>(f: impl FnOnce() -> R) -> R;
}

/// The model `M`, for a pool whose contexts may preempt each other anywhere outside of a section
/// `S`.
///
/// ```
/// # enum Masked {}
/// # static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
/// # // SAFETY: a lock.
/// # unsafe impl pmem_tx::Section for Masked {
/// #     fn with<R>(f: impl FnOnce() -> R) -> R {
/// #         let _guard = ONE.lock();
/// #         f()
/// #     }
/// # }
/// use pmem_tx::{Contexts, Pool, Preempted, nvmem::{InOrder32, Region}};
///
/// type Fram = Preempted<InOrder32, Masked>;
/// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 128]));
/// let mut pool = Pool::<Contexts<(u32, u16)>, Fram>::open(Region::new(memory), |_| Ok((0, 0)))?;
/// let (mut control, mut radio) = pool.contexts();
/// std::thread::scope(|s| {
///     // A context may move to another thread or an interrupt; only one uses it at a time.
///     s.spawn(|| radio.tx(|tx, n| Ok(*n.get_mut(tx)? += 1)));
///     control.tx(|tx, n| Ok(*n.get_mut(tx)? += 1))
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The format is that of `M`. **Cost**: the sections. A pool of any other model has none.
pub struct Preempted<M, S> {
    _never: Infallible,
    _m: PhantomData<fn() -> (M, S)>,
}

// SAFETY: invariant "A fence is nothing else": that of `M`; `S` promises its section.
unsafe impl<M: Model, S: Section> Model for Preempted<M, S> {
    type Unit = M::Unit;
    const BUFFERED: bool = M::BUFFERED;
    const NAME: &'static str = M::NAME;
    #[inline(always)]
    fn fence() {
        M::fence()
    }
    const PREEMPTED: bool = true;
    #[inline(always)]
    fn section<R>(f: impl FnOnce() -> R) -> R {
        S::with(f)
    }
}

// SAFETY: contexts share `Core` and their states. Shared fields are changed in sections only, and a
// context reads another one's state in sections only; sections exclude each other. The other fields
// of a state belong to its context. On the medium a context owns its journal and the objects its
// handles lead to; block headers and tags are read and written in sections.
unsafe impl<R, M: Model, S: Section> Send for Context<'_, R, Preempted<M, S>> {}
