//! The roots of a pool: one, or one for each of several contexts.

use crate::error::Error;
use crate::pbox::{PBox, Width};
use crate::state::{Core, CtxState};
use crate::tx::Tx;
use crate::walk::Walk;
use core::marker::PhantomData;
use nvmem::{Invalid, Model, Persist, Unit};

/// The roots of a pool: a `Persist` type, or [`Contexts`] of a tuple of them.
///
/// # Safety
/// Sealed by its hidden methods: implemented here only.
pub unsafe trait Roots {
    #[doc(hidden)]
    const COUNT: usize;
    #[doc(hidden)]
    type States: AsRef<[CtxState]> + Default;
    /// The values that a format stores: one for each root.
    type Init<'p>;
    #[doc(hidden)]
    fn fingerprint() -> u64;
    #[doc(hidden)]
    fn init_roots<'p, M: Model>(init: Self::Init<'p>, tx: &Tx<'p, M>) -> Result<(), Error>
    where
        M::Unit: Width;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn walk<M: Model>(w: &mut Walk<'_, '_, M>, core: &Core<'_, M>) -> Result<(), Invalid>;
}

fn init_root<'p, T: Persist, M: Model>(i: usize, v: T, tx: &Tx<'p, M>) -> Result<(), Error>
where
    M::Unit: Width,
{
    let b = PBox::new(v, tx)?;
    // SAFETY: invariant "Headers are never content": the root word of context `i` is a unit of the
    // table, never lent.
    unsafe {
        tx.core.store(
            tx.core.geo.root(i, M::Unit::BYTES),
            <M::Unit as Width>::value(b.offset()),
        )
    }
    Ok(())
}

#[inline(always)]
fn walk_one<T: Persist, M: Model>(
    i: usize,
    w: &mut Walk<'_, '_, M>,
    core: &Core<'_, M>,
) -> Result<(), Invalid> {
    // SAFETY: invariant "Headers are never content": the root word of context `i` is a unit of the
    // table, never lent.
    w.claim_root::<T>(unsafe { core.load(core.geo.root(i, M::Unit::BYTES)) })
}

// SAFETY: invariant "Sole owner": one root, shown to the walk once.
unsafe impl<R: Persist> Roots for R {
    const COUNT: usize = 1;
    type States = [CtxState; 1];
    type Init<'p> = R::At<'p>;
    fn fingerprint() -> u64 {
        nvmem::fingerprint::<R>()
    }
    fn init_roots<'p, M: Model>(init: R::At<'p>, tx: &Tx<'p, M>) -> Result<(), Error>
    where
        M::Unit: Width,
    {
        init_root(0, init, tx)
    }
    #[inline(always)]
    #[allow(private_interfaces)]
    fn walk<M: Model>(w: &mut Walk<'_, '_, M>, core: &Core<'_, M>) -> Result<(), Invalid> {
        walk_one::<R, M>(0, w, core)
    }
}

/// Several roots, one for each context: `Pool<Contexts<(Ui, Radio)>>`.
pub struct Contexts<T>(PhantomData<fn(T) -> T>);

macro_rules! contexts {
    ($($n:literal: $($r:ident $i:tt $v:ident),+;)*) => {$(
        // SAFETY: invariant "Sole owner": a root for each context, each shown to the walk once.
        unsafe impl<$($r: Persist),+> Roots for Contexts<($($r,)+)> {
            const COUNT: usize = $n;
            type States = [CtxState; $n];
            type Init<'p> = ($($r::At<'p>,)+);
            fn fingerprint() -> u64 {
                // Order matters: a type's index in the tuple is the index of its context.
                [$(nvmem::fingerprint::<$r>()),+]
                    .iter()
                    .fold($n, |h: u64, f| (h.rotate_left(7) ^ f).wrapping_mul(0x100_0000_01b3))
            }
            fn init_roots<'p, Md: Model>(init: Self::Init<'p>, tx: &Tx<'p, Md>) -> Result<(), Error>
            where
                Md::Unit: Width,
            {
                let ($($v,)+) = init;
                $(init_root($i, $v, tx)?;)+
                Ok(())
            }
            #[allow(private_interfaces)]
            fn walk<Md: Model>(w: &mut Walk<'_, '_, Md>, core: &Core<'_, Md>) -> Result<(), Invalid> {
                $(walk_one::<$r, Md>($i, w, core)?;)+
                Ok(())
            }
        }
        impl<'m, $($r: Persist,)+ M: Model> crate::Pool<'m, Contexts<($($r,)+)>, M>
        where
            M::Unit: Width,
        {
            /// The contexts, one for each root.
            pub fn contexts(&mut self) -> ($(crate::Context<'_, $r, M>,)+) {
                let (core, all) = self.core_and_states();
                ($(crate::Context::<$r, M> { core, others: all, s: &all[$i], _r: PhantomData },)+)
            }
        }
    )*};
}
contexts! {
    2: A 0 a, B 1 b;
    3: A 0 a, B 1 b, C 2 c;
    4: A 0 a, B 1 b, C 2 c, D 3 d;
    5: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e;
    6: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f;
    7: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f, G 6 g;
    8: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f, G 6 g, H 7 h;
}
