//! Correct and faulty programs on mapped media.
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, mapped};
use powerfail::{Mapped, World, explore};

fn get<M: Model>(nv: &Region<'_, M>, off: usize) -> u32 {
    unsafe { nv.load(off) }
}
fn put<M: Model>(nv: &Region<'_, M>, off: usize, v: u32) {
    unsafe { nv.store(off, v) }
}

/// A value of two words behind a valid flag. There are two slots; the newer one is valid.
fn slots<M: Model>(nv: Region<'_, M>, world: &World<u32>, fence: bool, order: bool) {
    let seq = |s: usize| get(&nv, s * 16);
    let newest = usize::from(seq(1) > seq(0));
    let n = seq(newest);
    if n > 0 {
        let (a, b) = (get(&nv, newest * 16 + 4), get(&nv, newest * 16 + 8));
        assert_eq!(a, b, "half a value");
        assert!(a >= world.get(), "acknowledged {} read {a}", world.get());
    }
    if n < 4 {
        let to = (1 - newest) * 16;
        if !order {
            put(&nv, to, n + 1);
        }
        put(&nv, to + 4, n + 1);
        put(&nv, to + 8, n + 1);
        if fence {
            mapped::fence::<M>();
        }
        if order {
            put(&nv, to, n + 1);
        }
        mapped::fence::<M>();
        world.acknowledge(n + 1);
    }
}

#[test]
fn two_slots_hold() {
    let a = explore(Mapped::<InOrder32>::new(64), |nv, w| {
        slots(nv, w, false, true)
    })
    .depth(if cfg!(miri) { 1 } else { 3 })
    .run();
    let b = explore(Mapped::<InOrder16>::new(64), |nv, w| {
        slots(nv, w, false, true)
    })
    .depth(if cfg!(miri) { 1 } else { 2 })
    .run();
    let c = explore(Mapped::<Buffered32>::new(64), |nv, w| {
        slots(nv, w, true, true)
    })
    .depth(if cfg!(miri) { 1 } else { 3 })
    .run();
    println!("{a}\n{b}\n{c}");
    assert!(
        cfg!(miri) || a.boots > 8 && b.boots > 4 && c.boots > 8,
        "{a} {b} {c}"
    );
}

#[test]
fn a_missing_fence_shows_only_where_stores_are_buffered() {
    explore(Mapped::<InOrder32>::new(64), |nv, w| {
        slots(nv, w, false, true)
    })
    .depth(if cfg!(miri) { 1 } else { 2 })
    .run();
    let e = explore(Mapped::<Buffered32>::new(64), |nv, w| {
        slots(nv, w, false, true)
    })
    .try_run()
    .unwrap_err();
    println!("{e}");
    assert!(e.report().contains("half a value"), "{e}");
}

#[test]
fn a_wrong_order_shows_everywhere() {
    let e = explore(Mapped::<InOrder32>::new(64), |nv, w| {
        slots(nv, w, true, false)
    })
    .try_run()
    .unwrap_err();
    println!("{e}");
    assert!(e.report().contains("power lost once"), "{e}");
}

/// A commit flag that is set while the user's stores through a reference are still on loan.
fn loan(nv: Region<'_, InOrder32>, ends_before: bool) {
    if get(&nv, 0) == 1 {
        assert_eq!((get(&nv, 8), get(&nv, 12)), (7, 8));
        return;
    }
    let at = unsafe { nv.base().add(8) };
    mapped::lend(at, 8);
    let user = unsafe { &mut *at.cast::<[u32; 2]>() };
    user[0] = 7;
    user[1] = 8;
    if ends_before {
        mapped::end_loan(at, 8);
    }
    put(&nv, 0, 1);
    if !ends_before {
        mapped::end_loan(at, 8);
    }
}

#[test]
fn stores_on_loan_are_open_until_it_ends() {
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        loan(nv, true)
    })
    .depth(if cfg!(miri) { 1 } else { 2 })
    .run();
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        loan(nv, false)
    })
    .try_run()
    .unwrap_err();
    println!("{e}");
}

#[test]
fn a_program_that_stores_nothing_fails() {
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        get(&nv, 0);
    })
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("nothing to explore"));
}

#[test]
#[cfg_attr(
    miri,
    ignore = "memory that a run may have left uninitialised is not compared"
)]
fn a_stray_store_is_found() {
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        put(&nv, 0, 1);
        unsafe { nv.base().add(8).write_volatile(1) };
    })
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("neither made by the library"), "{e}");
}

#[test]
fn a_hang_is_found() {
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        put(&nv, 0, 1);
        while get(&nv, 4) == 0 && get(&nv, 0) == 1 {}
    })
    .budget(1000)
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("does not end"), "{e}");
}

#[test]
fn two_media_at_once() {
    let s = explore(
        (Mapped::<InOrder32>::new(64), Mapped::<Buffered32>::new(64)),
        |(a, b), w: &World<u32>| {
            let n = get(&b, 0);
            assert!(n >= get(&a, 0));
            assert!(get(&a, 0) >= w.get());
            put(&b, 0, n + 1);
            mapped::fence::<Buffered32>();
            put(&a, 0, n + 1);
            w.set(n + 1);
        },
    )
    .depth(if cfg!(miri) { 1 } else { 2 })
    .run();
    assert!(cfg!(miri) || s.boots >= 6, "{s}");
}

/// A medium behind a controller of its own, with a fence of its own.
enum Behind {}
// SAFETY: the medium is simulated, and the fence only informs the test kit.
unsafe impl Model for Behind {
    type Unit = u32;
    const BUFFERED: bool = true;
    const NAME: &'static str = "behind";
    fn fence() {}
}

/// Content on one medium, its valid flag on the other.
fn apart<M: Model>(a: Region<'_, Buffered32>, b: Region<'_, Behind>) {
    if get(&a, 0) == 1 {
        assert_eq!(get(&b, 0), 7, "no content");
    }
    put(&b, 0, 7);
    mapped::fence::<M>();
    put(&a, 0, 1);
}

#[test]
fn a_fence_of_one_medium_is_none_of_another() {
    let media = || (Mapped::<Buffered32>::new(64), Mapped::<Behind>::new(64));
    explore(media(), |(a, b), _: &World<()>| apart::<Behind>(a, b)).run();
    let e = explore(media(), |(a, b), _: &World<()>| apart::<Buffered32>(a, b))
        .try_run()
        .expect_err("the other medium was fenced");
    assert!(e.report().contains("no content"), "{e}");
    // A fence of an in-order model does not help either.
    let e = explore(media(), |(a, b), _: &World<()>| apart::<InOrder32>(a, b)).try_run();
    assert!(e.is_err());
}

#[test]
fn a_leaked_static_is_found() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static BOOTS: AtomicU32 = AtomicU32::new(0);
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        let n = BOOTS.fetch_add(1, Relaxed);
        put(&nv, 0, n);
    })
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("two runs without a cut differ"), "{e}");
}

#[test]
fn a_stored_address_is_found() {
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        put(&nv, 0, nv.base() as usize as u32);
    })
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("an address is stored"), "{e}");
}
