//! Which types are `Send` and `Sync`. Decided when this file compiles.

use nvmem::{InOrder32, Persist, Region};
use pmem_tx::{
    Context, Contexts, FieldSlot, Held, HeldBox, HeldRef, OpenError, PBox, Pool, Preempted,
    Prepared, Section, Tx,
};

macro_rules! not {
    ($($t:ty: $marker:ident),* $(,)?) => {$(
        const _: fn() = || {
            trait Either<A> {
                fn some() {}
            }
            impl<T: ?Sized> Either<()> for T {}
            struct Too;
            impl<T: ?Sized + $marker> Either<Too> for T {}
            // Ambiguous, so an error, if the type has the marker.
            let _ = <$t as Either<_>>::some;
        };
    )*};
}

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    next: Option<PBox<'p, Node<'p>>>,
}
type N = Node<'static>;

// A transaction's token, and types that hold one.
not!(Tx<'static>: Send, Tx<'static>: Sync, FieldSlot<'static, 'static, u32>: Send, FieldSlot<'static, 'static, u32>: Sync);
// Contexts of a pool share its heap without a lock.
not!(Context<'static, N>: Send, Context<'static, N>: Sync, Prepared<'static, (), (), InOrder32>: Send);
not!(Pool<'static, N>: Sync, Pool<'static, Contexts<(N, N)>>: Sync, Region<'static, InOrder32>: Sync);

// With a critical section they may be sent.
enum Lock {}
// SAFETY: never called.
unsafe impl Section for Lock {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}
type Shared = Preempted<InOrder32, Lock>;
not!(Context<'static, N, Shared>: Sync, Prepared<'static, (), (), Shared>: Send, Tx<'static, Shared>: Send);

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}
const _: () = {
    send::<Pool<'static, N>>();
    send::<Pool<'static, Contexts<(N, u32)>>>();
    send::<Context<'static, N, Shared>>();
    send::<Region<'static, InOrder32>>();
    // Numbers; without a token they lead nowhere.
    send::<Held<N>>();
    sync::<Held<N>>();
    send::<HeldRef<'static, N>>();
    send::<HeldBox<'static, N>>();
    send::<PBox<'static, N>>();
    send::<OpenError>();
};

#[test]
fn a_pool_moves_to_another_thread() {
    let mut words = [core::mem::MaybeUninit::new(0); 128];
    let mut pool = Pool::<u32>::open(Region::<InOrder32>::new(&mut words), |_| Ok(1)).unwrap();
    std::thread::scope(|s| {
        let moved = s.spawn(|| {
            pool.tx(|tx, r| {
                *r.get_mut(tx)? += 1;
                Ok(())
            })
        });
        moved.join().unwrap().unwrap();
    });
    assert_eq!(pool.tx(|tx, r| Ok(*r.get(tx))), Ok(2));
}
