//! Brands: tags that tie handles to their heap. A brand is a lifetime that no other heap has, or
//! `'static` and a marker type.

use core::cell::Cell;
use core::marker::PhantomData;
use critical_section::Mutex;
use nvmem::planted;

/// Invariant in `'h` and in the marker `B`.
pub(crate) type Tag<'h, B = ()> = PhantomData<(fn(&'h ()) -> &'h (), fn(B) -> B)>;

/// Opens a heap, and ties its handles to it.
///
/// [`brand!`](crate::brand!) makes one for a scope: no other brand has its lifetime. A heap that is
/// stored, or given to a task, is opened with a `Brand<'static>`. There is one for each marker type
/// `B`: [`Brand::take`] returns that of `()`, the default marker of all types;
/// [`static_brand!`](crate::static_brand) declares others. A handle's type tells its heap: `Own<'h,
/// Node, Log>`.
pub struct Brand<'h, B = ()> {
    _tag: Tag<'h, B>,
}

// INVARIANT "One brand, one heap": two heaps never share one lifetime and one marker type, if both
// can be open at the same time, or one after the other with handles left. `brand!` declares a
// hidden value with a destructor, a borrow of it with a destructor, and the brand. Then it calls a
// function that does nothing. To the borrow checker any call may unwind, in every panic strategy,
// and on that way out the later brand's value is dropped before the earlier one's borrow ends. With
// equal lifetimes this would be a use after the end, so the program does not compile. This also
// holds where a scope is never left, in `fn main() -> !` or a task, in closures, in `async`, in
// `extern "C"`, with `panic = "abort"`, and with both Polonius checkers. Of a static brand the flag
// of `static_brand!` gives one; `Marked` in handle.rs keeps handles of two markers apart.
// Noticed by: the compile-fail cases `never_left`, `another_heap`, `static_heaps`,
// `static_and_local`; planted `brand-taken-twice`.
/// The scope that a brand's lifetime borrows. Its destructor ends the borrow on every way out of
/// the scope.
#[doc(hidden)]
pub struct BrandScope(());

/// Keeps its scope borrowed to the end. The compiler names it in errors when handles of two heaps
/// are mixed up.
#[doc(hidden)]
pub struct HandleOfAnotherHeap<'h> {
    _scope: &'h BrandScope,
    _tag: Tag<'h>,
}

// Both have empty destructors on purpose. The destructor of the later brand's scope runs before the
// end of the earlier brand's borrow, so that the two borrows cannot have one lifetime.
impl Drop for BrandScope {
    #[inline(always)]
    fn drop(&mut self) {}
}
impl Drop for HandleOfAnotherHeap<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl BrandScope {
    /// # Safety
    /// Only [`brand!`](crate::brand!) calls it: the scope is a variable that nothing else can name.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new() -> Self {
        BrandScope(())
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn ends(&self) -> HandleOfAnotherHeap<'_> {
        HandleOfAnotherHeap {
            _scope: self,
            _tag: PhantomData,
        }
    }
}

impl<'h, B> Brand<'h, B> {
    /// # Safety
    /// Only [`brand!`](crate::brand!) calls it, once for each scope, and [`all_declared`] after it.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(_: &HandleOfAnotherHeap<'h>) -> Self {
        Brand { _tag: PhantomData }
    }
}

impl Brand<'static> {
    /// The brand of a heap that lives as long as the program. `None` when it was taken before.
    ///
    /// An open that fails consumes the brand. So handle refusals with a local brand first, and then
    /// open for good:
    ///
    /// ```
    /// use vnv_heap::nvmem::ram::RamFram;
    /// use vnv_heap::{Brand, Config, Heap, OpenError, Own, brand};
    ///
    /// type Fram = RamFram<2048>;
    /// struct App {
    ///     heap: Heap<'static, u32, Fram>,
    ///     last: Own<'static, [u8; 8]>,
    /// }
    ///
    /// fn app(mut fram: Fram, ram: &'static mut [u8]) -> Option<App> {
    ///     let interrupted = {
    ///         brand!(b);
    ///         let heap = Heap::<u32, _>::open(b, &mut fram, &mut *ram, Config::DEFAULT, |_| Ok(0));
    ///         matches!(heap, Err(OpenError::Interrupted))
    ///     };
    ///     if interrupted {
    ///         brand!(b);
    ///         Heap::<u32, _>::format(b, &mut fram, &mut *ram, Config::DEFAULT, |_| Ok(0)).ok()?;
    ///     }
    ///     let heap = Heap::open(Brand::take()?, fram, ram, Config::DEFAULT, |_| Ok(0)).ok()?;
    ///     let last = heap.alloc([0; 8]).ok()?;
    ///     Some(App { heap, last })
    /// }
    /// # let app = app(Fram::filled(0), Box::leak(Box::new([0; 512]))).unwrap();
    /// # app.heap.read(&app.last).unwrap();
    /// ```
    pub fn take() -> Option<Self> {
        static ONCE: TakenOnce = TakenOnce::new();
        // SAFETY: invariant "One brand, one heap": this marker's only flag.
        unsafe { ONCE.brand() }
    }
}

/// Whether a marker's static brand was taken.
#[doc(hidden)]
pub struct TakenOnce(Mutex<Cell<bool>>);

impl TakenOnce {
    #[doc(hidden)]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        TakenOnce(Mutex::new(Cell::new(false)))
    }

    /// # Safety
    /// All static brands with this marker come from this flag.
    #[doc(hidden)]
    pub unsafe fn brand<B>(&self) -> Option<Brand<'static, B>> {
        let taken = critical_section::with(|cs| self.0.borrow(cs).replace(true));
        let free = !taken || planted!("vnv-heap/brand-taken-twice");
        free.then_some(Brand { _tag: PhantomData })
    }
}

/// `static_brand!(pub Log)` declares a marker for a further heap that lives as long as the program:
/// a type `Log` without values, whose `Log::take()` gives the brand once.
///
/// The types of such a heap name the marker:
/// `Heap<'static, Root<'static>, Fram, JustInTime, Predict, Log>`, `Own<'h, Node<'h>, Log>`,
/// `Fifo<'h, u32, Log>`. Handles of two of them are of different types.
///
/// ```
/// vnv_heap::static_brand!(
///     /// The heap of the log.
///     pub Log
/// );
/// assert!(Log::take().is_some() && Log::take().is_none());
/// ```
#[macro_export]
macro_rules! static_brand {
    ($(#[$attr:meta])* $vis:vis $name:ident) => {
        $(#[$attr])*
        $vis enum $name {}
        impl $name {
            /// The brand of this marker; `None` when it was taken before.
            $vis fn take() -> ::core::option::Option<$crate::Brand<'static, $name>> {
                static ONCE: $crate::__brand::TakenOnce = $crate::__brand::TakenOnce::new();
                // SAFETY: invariant "One brand, one heap": the marker's only flag.
                unsafe { ONCE.brand::<$name>() }
            }
        }
    };
}

/// Does nothing, but could unwind as far as the borrow checker knows. So from here a path leads
/// through the destructors of all variables in scope.
#[doc(hidden)]
#[inline(always)]
pub fn all_declared() {}

/// `brand!(b)` declares `b`, with which one heap can be opened in this scope.
///
/// The heap's handles carry the brand. So handles of two heaps cannot be mixed up, and none
/// outlives its heap: neither compiles, also in a scope that never ends. The compiler then reports
/// that a brand "does not live long enough", and names `HandleOfAnotherHeap`. Declare the RAM and
/// the medium that the heap borrows *before* the brand.
///
/// ```
/// # #![forbid(unsafe_code, unused)]
/// # use vnv_heap::{Config, Heap, brand, nvmem::ram::RamFram};
/// let (fram, mut ram) = (RamFram::<2048>::filled(0), [0; 512]);
/// brand!(b);
/// let heap = Heap::<u32, _>::open(b, fram, &mut ram, Config::DEFAULT, |_| Ok(7));
/// # assert_eq!(*heap.unwrap().root().unwrap(), 7);
/// ```
#[macro_export]
macro_rules! brand {
    // Not an `ident`: the compiler then could not name the variable in its messages.
    ($name:tt) => {
        // SAFETY: invariant "One brand, one heap": a variable that only this macro can name: the
        // brand hides it.
        let $name = unsafe { $crate::__brand::BrandScope::new() };
        let a_handle_is_used_with_another_heap = $name.ends();
        // SAFETY: invariant "One brand, one heap": the only brand of this scope.
        let $name = unsafe { $crate::Brand::new(&a_handle_is_used_with_another_heap) };
        $crate::__brand::all_declared();
        // Used, so that no lint needs to be allowed, which a program may forbid.
        let _ = &$name;
    };
}
