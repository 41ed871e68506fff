//! Contexts that preempt each other.

use crate::context::Context;
use core::convert::Infallible;
use core::marker::PhantomData;
use nvmem::Model;

/// A critical section of the caller's: what keeps the other contexts of a pool out for a moment.
///
/// A kernel that masks interrupts, or that masks those which lead to a context of the pool:
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
/// Sections are short, and their length does not depend on the pool's:
///
/// | in one section | stores | loads |
/// |---|---|---|
/// | search of an allocation | none | 4 block headers; for each that is free, the journal headers of the contexts in doubt |
/// | its last part | 4, in order: two words of the journal, one or two block headers | the same, for the free neighbours that are joined |
/// | a block freed, or given back by an abort | 1 | its header |
/// | an entry cleared by an abort | 1 | none |
/// | tags looked at by a sweep or an abort | at most 4 | 4 block headers and their tags |
/// | a cell's tag read or written | at most 1 | 1 |
/// | a unit of old content restored by an abort | 1 | 1 |
/// | the pool's session looked at, or taken, for handles outside | none | none |
///
/// On a buffered medium up to 4 fences are in the last part of an allocation, and none elsewhere.
/// A search begins again when another context has joined free blocks since its
/// last section: once for each time that it is preempted, at most.
///
/// Sections are never nested.
///
/// # Safety
/// `with` calls `f` once, on this thread, before it returns, and does not unwind by itself. Between
/// any two calls, in whatever thread, interrupt or core, one `f` has ended before the other begins,
/// and what it wrote is seen there: the section is a barrier for the compiler, and where there are
/// several cores, for the memory.
pub unsafe trait Section: 'static {
    /// Runs `f` while no other context of the pool is in a section.
    fn with<R>(f: impl FnOnce() -> R) -> R;
}

/// The model `M`, for a pool whose contexts preempt each other anywhere but in a section `S`.
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
///     // A context may go to another thread, or to an interrupt; it is used by one at a time.
///     s.spawn(|| radio.tx(|tx, n| Ok(*n.get_mut(tx)? += 1)));
///     control.tx(|tx, n| Ok(*n.get_mut(tx)? += 1))
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The format is that of `M`. **Cost**: the sections; in a pool of any other model there are none.
pub struct Preempted<M, S> {
    _never: Infallible,
    _m: PhantomData<fn() -> (M, S)>,
}

// SAFETY: the promises of `M` for the medium, and of `S` for the section.
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

// SAFETY: what contexts share is `Core` and their states. Both are only changed, and of another
// context only read, in sections, of which one has ended before the next begins; all else of a
// state is its context's. On the medium each has its journal and what its handles lead to; block
// headers and tags are read and written in sections.
unsafe impl<R, M: Model, S: Section> Send for Context<'_, R, Preempted<M, S>> {}
