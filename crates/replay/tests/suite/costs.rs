//! The documented costs of operations, counted store by store.

#![allow(dropping_copy_types, clippy::drop_non_drop)]

use core::cell::Cell;
use core::mem::MaybeUninit;
use nv_replay::nvmem::instrument::{Observer, observe};
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{Held, Width};
use nv_replay::{Config, Error, Options, PBox, Port, Replay};

/// Counts the stores and bytes of the library.
#[derive(Default)]
struct Count {
    stores: Cell<usize>,
    bytes: Cell<usize>,
}
impl Observer for Count {
    fn store(&self, _: *mut u8, new: &[u8]) {
        self.stores.set(self.stores.get() + 1);
        self.bytes.set(self.bytes.get() + new.len());
    }
}
impl Count {
    /// (stores, bytes) of a closure.
    fn of(f: impl FnOnce()) -> (usize, usize) {
        let c = Count::default();
        observe(&c, f);
        (c.stores.get(), c.bytes.get())
    }
}

type Rt<'m, M> = Replay<'m, u32, M>;
type H<M> = Held<u32, <M as Model>::Unit>;
static PORT: Port<u32> = Port::new(1);

fn memory() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 1024]
}
fn fresh<M: Model>(m: &mut [MaybeUninit<u64>]) -> Rt<'_, M>
where
    M::Unit: Width,
{
    Rt::<M>::open(Region::new(m), Options::default(), |_| Ok(0)).unwrap()
}

fn steps<M: Model>()
where
    M::Unit: Width,
{
    let unit = size_of::<M::Unit>();
    let narrow = usize::from(unit == 2);
    let mut m = memory();
    let mut rt = fresh::<M>(&mut m);
    let r = &mut rt;
    assert_eq!(
        Count::of(|| r.step((), |_, _, ()| Ok(())).unwrap()),
        (1, unit),
        "a step without a result"
    );
    assert_eq!(
        Count::of(|| r.step((1u32, 2u8), |_, _, _| Ok(())).unwrap()).0,
        1,
        "plain arguments are not stored"
    );
    let words = |bytes: usize| bytes.div_ceil(unit);
    for (stores, bytes) in [
        (
            Count::of(|| drop(r.step((), |_, _, ()| Ok(7u8)).unwrap())),
            1,
        ),
        (
            Count::of(|| drop(r.step((), |_, _, ()| Ok(7u32)).unwrap())),
            4,
        ),
        (Count::of(|| drop(r.record(7u64).unwrap())), 8),
        (
            Count::of(|| drop(r.step((), |_, _, ()| Ok([0u8; 40])).unwrap())),
            40,
        ),
    ] {
        assert_eq!(
            stores.0,
            1 + words(bytes) + narrow,
            "a result of {bytes} bytes"
        );
        assert_eq!(stores.1, stores.0 * unit);
    }
    let aborted = Count::of(|| {
        drop(
            r.step((), |tx, _, ()| Err::<u32, _>(tx.abort(1)))
                .unwrap_err(),
        )
    });
    assert_eq!(aborted.0, 2 + narrow, "an abort, and its code");
    let body = Count::of(|| {
        r.step((), |tx, root, ()| {
            *root.get_mut(tx)? += 1;
            Ok(())
        })
        .unwrap()
    });
    assert_eq!(
        body.1,
        4 + 2 * unit + unit,
        "a change is logged: content, two units; and one commits it all"
    );
    let mut h = r
        .step_own::<_, H<M>>((), |tx, _, ()| PBox::new(tx, 5))
        .unwrap();
    assert_eq!(
        Count::of(|| r.step(h.lend(), |_, _, _| Ok(())).unwrap()).0,
        1,
        "a handle that is lent"
    );
    let back = Count::of(|| drop(r.step_own::<_, H<M>>(h, |_, _, h| Ok(h)).unwrap()));
    assert_eq!(back.0, 3 + narrow, "a handle given, and one returned");
    let sent = Count::of(|| r.step((), |tx, _, ()| tx.send(&PORT, 1)).unwrap());
    // Port and length, content; message number, head; the record; the sent mark.
    assert_eq!(
        sent.1,
        unit + 4 + 4 + unit + unit + unit,
        "an output of 4 bytes"
    );
}

fn loops<M: Model>()
where
    M::Unit: Width,
{
    let unit = size_of::<M::Unit>();
    let run = |n: u32| {
        let mut m = memory();
        let mut rt = fresh::<M>(&mut m);
        Count::of(|| {
            rt.each_with(0..n, (), |rt, _, ()| {
                rt.step((), |_, _, ()| Ok(()))?;
                Ok(())
            })
            .unwrap()
        })
        .0
    };
    let one = run(1);
    assert_eq!(one, 2 + 1 + 1, "to open: state and record; to end: state");
    assert_eq!(run(2), one + 2);
    assert_eq!(
        run(101),
        one + 100 * 2,
        "one store an iteration, and its step"
    );
    let carries = if unit == 2 { 2 } else { 0 };
    let swept = if unit == 2 {
        run(401) - run(301) - 200
    } else {
        0
    };
    assert!(run(301) >= one + 600 + carries / 2 && swept <= 4, "{swept}");
    let mut m = memory();
    let mut rt = fresh::<M>(&mut m);
    let e = rt.forever(|rt, i| {
        let c = Count::of(|| {
            let _ = rt.step(i, |_, _, _| Ok(()));
        });
        assert_eq!(c.0, 1);
        if i == 50 { Err(Error::Other) } else { Ok(()) }
    });
    assert_eq!(e.err(), Some(Error::Other));
}

/// A bypass stores nothing. Opening stores nothing if no operation was cut.
fn replays<M: Model>()
where
    M::Unit: Width,
{
    fn program<M: Model>(rt: &mut Rt<'_, M>)
    where
        M::Unit: Width,
    {
        for i in 0..10 {
            assert_eq!(rt.step(i, |_, _, i: u32| Ok(i)).unwrap(), i);
        }
    }
    let mut m = memory();
    let mut rt = fresh::<M>(&mut m);
    program(&mut rt);
    let region = rt.close();
    let mut kept = None;
    let c = Count::of(|| {
        let mut rt = Rt::<M>::open(region, Options::default(), |_| Ok(0)).unwrap();
        program(&mut rt);
        kept = Some(rt);
    });
    assert_eq!(c.0, 0);
    assert!(kept.unwrap().is_live());
}

#[test]
fn in_order_16() {
    steps::<InOrder16>();
    loops::<InOrder16>();
    replays::<InOrder16>();
}
#[test]
fn in_order_32() {
    steps::<InOrder32>();
    loops::<InOrder32>();
    replays::<InOrder32>();
}
#[test]
fn buffered_32() {
    steps::<Buffered32>();
    loops::<Buffered32>();
    replays::<Buffered32>();
}

/// Starting over keeps the first records: each is copied, and one store begins the new run.
#[test]
fn keeping_records() {
    let mut m = memory();
    let mut rt = fresh::<InOrder32>(&mut m);
    for _ in 0..3 {
        rt.step((), |_, _, ()| Ok(())).unwrap();
    }
    let region = rt.close();
    let options = Options {
        version: 1,
        update: nv_replay::Update::Keep(2),
        ..Options::default()
    };
    let c = Count::of(|| {
        let _ = Rt::<InOrder32>::open(region, options, |_| Ok(0)).unwrap();
    });
    // Two headers, the cleared end, the version, the start word.
    assert_eq!(c.0, 5);
    assert!(Config::DEFAULT.table_bytes::<InOrder32>() < 1600);
}
