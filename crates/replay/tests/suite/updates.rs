//! Another version of the program, a lost pool, starting over, and what a divergence stops.

use nv_replay::nvmem::{InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{
    Config, Error, Held, Mismatch, OpenError, OpenFailure, Options, PBox, Replay, Update,
};
use std::mem::MaybeUninit;

type Rt<'m> = Replay<'m, u32>;
fn memory() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 512]
}
fn open<'m>(
    region: Region<'m, InOrder32>,
    version: u16,
    update: Update,
) -> Result<Rt<'m>, OpenFailure<'m, InOrder32>> {
    let options = Options {
        version,
        update,
        ..Options::default()
    };
    Replay::open(region, options, |_| Ok(0))
}

/// Two steps that both versions have, and one that the new version has changed.
fn program(rt: &mut Rt<'_>, version: u16) -> Result<u32, Error> {
    let a = rt.named(1).step_own::<_, u32>((), |tx, n, ()| {
        *n.get_mut(tx)? += 1;
        Ok(*n.get(tx))
    })?;
    let b = rt.named(2).step_own::<_, u32>(a, |tx, n, a| {
        *n.get_mut(tx)? += 10;
        Ok(a + 1)
    })?;
    if version == 0 {
        rt.named(3).step_own::<_, ()>(b, |tx, n, _| {
            *n.get_mut(tx)? += 100;
            Ok(())
        })?;
    } else {
        rt.named(4).step_own::<_, ()>(b, |tx, n, _| {
            *n.get_mut(tx)? += 1000;
            Ok(())
        })?;
    }
    Ok(rt
        .named(5)
        .step_own::<_, u32>((), |tx, n, ()| Ok(*n.get(tx)))?)
}

#[test]
fn another_version_is_the_callers_choice() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, 0), Ok(111));
    let OpenFailure {
        error: e, region, ..
    } = open(rt.close(), 1, Update::Refuse).err().unwrap();
    assert_eq!(e, OpenError::OtherVersion { recorded: 0 });
    let OpenFailure {
        error: e, region, ..
    } = open(region, 1, Update::Keep(9)).err().unwrap();
    assert_eq!(e, OpenError::NoSuchRecord { records: 4 });
    // The third step of the old version has happened and stays.
    let mut rt = open(region, 1, Update::Keep(2)).unwrap();
    assert!(!rt.is_live());
    assert_eq!(program(&mut rt, 1), Ok(1111));
    // The choice applies once: now the records belong to the new version.
    let mut rt = open(rt.close(), 1, Update::Keep(2)).unwrap();
    assert_eq!(program(&mut rt, 1), Ok(1111));
    let mut rt = open(rt.close(), 2, Update::StartOver).unwrap();
    assert!(rt.is_live());
    assert_eq!(program(&mut rt, 1), Ok(2122));
    let mut rt = open(rt.close(), 2, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, 1), Ok(2122));
}

#[test]
fn an_unannounced_update_is_divergence_and_stops_everything() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    program(&mut rt, 0).unwrap();
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    let e = program(&mut rt, 1).unwrap_err();
    assert_eq!(e, Error::Diverged);
    let d = rt.divergence().unwrap();
    assert_eq!((d.record, d.mismatch), (2, Mismatch::Call));
    // Every later call is refused, even one that would match.
    assert_eq!(rt.record(1u32), Err(e));
    assert_eq!(rt.each(0..2, |_, _| Ok(())), Err(e));
    assert_eq!(program(&mut rt, 0), Err(e));
    assert!(!rt.is_live());
    // Nothing was changed: the old program continues.
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, 0), Ok(111));
    // Or the new one starts over on demand.
    let options = Options {
        start_over: true,
        ..Options::default()
    };
    let mut rt = Rt::open(rt.close(), options, |_| Ok(0)).unwrap();
    assert_eq!(program(&mut rt, 1), Ok(1122));
}

#[test]
fn a_handle_of_another_life_is_refused() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    let make = |rt: &mut Rt<'_>| {
        rt.named(1)
            .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 7u32))
            .unwrap()
    };
    let old = make(&mut rt);
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    let new = make(&mut rt);
    // The old and the new handle lead to the same object: only one of them is accepted.
    let f = rt
        .step((new, old), |tx, _, (mut a, mut b)| {
            let (a, b) = (a.get_mut(tx)?, b.get_mut(tx)?);
            std::mem::swap(a, b);
            Ok(())
        })
        .unwrap_err();
    assert_eq!(f.error, Error::WrongPool);
    let (new, _old) = f.args;
    assert_eq!(rt.step(new, |tx, _, n| n.into_inner(tx)).unwrap(), 7);
    // A runtime that was forgotten changes nothing.
    let region = rt.close();
    let (base, len) = (region.base(), region.len());
    let mut rt = open(region, 0, Update::Refuse).unwrap();
    let kept = make(&mut rt);
    #[allow(clippy::forget_non_drop)]
    std::mem::forget(rt);
    // SAFETY: the range's owner was forgotten.
    let region = unsafe { Region::from_raw(base, base.add(len)) }.unwrap();
    let mut rt = open(region, 0, Update::Refuse).unwrap();
    let new = make(&mut rt);
    drop((kept, new));
}

#[test]
fn the_same_step_with_another_handle_is_divergence() {
    fn program(rt: &mut Rt<'_>, swapped: bool) -> Result<u32, Error> {
        let a = rt.step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 7u32))?;
        let b = rt.step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 8u32))?;
        let (gone, keep) = if swapped { (b, a) } else { (a, b) };
        let moved = rt.step_own::<_, Held<u32>>(gone, |_, _, g| Ok(g))?;
        rt.step((keep, moved), |tx, _, (mut a, mut b)| {
            std::mem::swap(a.get_mut(tx)?, b.get_mut(tx)?);
            Ok(a.into_inner(tx)? * 10 + b.into_inner(tx)?)
        })
        .map_err(Error::from)
    }
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, false), Ok(78));
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    let e = program(&mut rt, true).unwrap_err();
    assert_eq!(e, Error::Diverged);
    let what = rt.divergence().map(|d| d.mismatch);
    assert!(
        matches!(what, Some(Mismatch::Handles | Mismatch::Arguments)),
        "{what:?}"
    );
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, false), Ok(78));
}

/// Among forty objects some have numbers whose recorded hash bits are equal: none is taken for
/// another.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn no_other_handle_is_taken_for_the_recorded_one() {
    const N: usize = 40;
    fn program(rt: &mut Rt<'_>, which: usize) -> Result<(), Error> {
        let mut all = Vec::new();
        for i in 0..N {
            let held = rt
                .named(i as u32)
                .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 7u32))?;
            all.push(held);
        }
        rt.step(all.swap_remove(which), |tx, _, h| h.into_inner(tx))?;
        Ok(())
    }
    fn open(region: Region<'_, InOrder32>) -> Rt<'_> {
        let options = Options {
            table: Config {
                bytes: 656,
                ..Config::DEFAULT
            },
            ..Options::default()
        };
        Rt::open(region, options, |_| Ok(0)).unwrap()
    }
    let mut collided = 0;
    for a in 0..N {
        let mut m = memory();
        let mut rt = open(Region::new(&mut m));
        program(&mut rt, a).unwrap();
        for b in (0..N).filter(|b| *b != a) {
            rt = open(rt.close());
            let e = program(&mut rt, b);
            let (Err(Error::Diverged), Some(d)) = (e, rt.divergence()) else {
                panic!("object {b} was taken for object {a}");
            };
            collided += usize::from(d.mismatch == Mismatch::Handles);
        }
        rt = open(rt.close());
        program(&mut rt, a).unwrap();
    }
    assert!(collided > 0, "the exact comparison was never needed");
}

#[test]
fn a_loop_that_is_left_by_an_error_stays_there() {
    fn program(rt: &mut Rt<'_>, fail: bool) -> Result<u32, Error> {
        FAIL.set(fail);
        rt.each(0..3, |rt, i| {
            rt.step(i, |tx, n, i| {
                *n.get_mut(tx)? += i + 1;
                Ok(())
            })?;
            if FAIL.get() && i == 1 {
                Err(Error::Aborted(4))
            } else {
                Ok(())
            }
        })?;
        Ok(rt.step((), |tx, n, ()| Ok(*n.get(tx)))?)
    }
    std::thread_local!(static FAIL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    for _ in 0..3 {
        assert_eq!(program(&mut rt, true), Err(Error::Aborted(4)));
        assert_eq!(rt.record(1u8), Err(Error::LoopInterrupted));
        rt = open(rt.close(), 0, Update::Refuse).unwrap();
    }
    assert_eq!(program(&mut rt, false), Ok(6));
}

#[test]
fn an_iteration_that_ends_too_early_is_divergence() {
    fn program(rt: &mut Rt<'_>, short: bool) -> Result<(), Error> {
        SHORT.set(short);
        rt.each(0..3, |rt, i| {
            if SHORT.get() {
                return Ok(());
            }
            rt.record(i)?;
            if i == 1 { Err(Error::Other) } else { Ok(()) }
        })
    }
    std::thread_local!(static SHORT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, false), Err(Error::Other));
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    let e = program(&mut rt, true).unwrap_err();
    assert_eq!(e, Error::Diverged);
    let d = rt.divergence().unwrap();
    assert_eq!((d.record, d.mismatch), (1, Mismatch::RecordsRemain));
    // A step where a loop was recorded, and a loop where a step was recorded.
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    let e = rt.record(3u32).unwrap_err();
    assert_eq!(e, Error::Diverged);
    assert_eq!(rt.divergence().unwrap().mismatch, Mismatch::Kind);
}

#[test]
fn a_body_that_unwinds_is_undone() {
    fn program(rt: &mut Rt<'_>, panics: bool) -> Result<u32, Error> {
        PANICS.set(panics);
        rt.step((), |tx, n, ()| {
            *n.get_mut(tx)? += 1;
            assert!(!PANICS.get(), "on purpose");
            Ok(())
        })?;
        Ok(rt.step((), |tx, n, ()| Ok(*n.get(tx)))?)
    }
    std::thread_local!(static PANICS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    for _ in 0..2 {
        let unwound = std::panic::AssertUnwindSafe(|| program(&mut rt, true));
        assert!(std::panic::catch_unwind(unwound).is_err());
    }
    assert_eq!(program(&mut rt, false), Ok(1));
    let mut rt = open(rt.close(), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, true), Ok(1));
}

/// A region's required size is reported before anything is written to it.
#[test]
fn a_region_that_is_too_small_stays_blank() {
    let mut m = memory();
    let mut len = 64;
    let mut said = Vec::new();
    loop {
        let bytes = len / 8;
        let small = Region::<InOrder32>::new(&mut m[..bytes]);
        match open(small, 0, Update::Refuse) {
            Ok(_) => break,
            Err(r) => {
                let OpenError::TooSmall { needed } = r.error else {
                    panic!("{:?} in {len} bytes", r.error)
                };
                assert!(needed > len, "{needed} bytes, {len} are there");
                said.push(needed);
                len = needed;
            }
        }
        // SAFETY: initialised by `memory`.
        assert!(m.iter().all(|w| unsafe { w.assume_init() } == 0));
    }
    // The table with one granule behind it, and the pool.
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn limits_are_named() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    let e = rt.step((), |_, _, ()| Ok([0u8; 512])).map_err(Error::from);
    assert_eq!(e.unwrap_err(), Error::TableFull);
    rt.record(1u8).unwrap();
    let rt = open(rt.close(), 0, Update::Refuse).unwrap();
    let region = rt.close();
    let bytes = region.len();
    let table = nv_replay::Config::DEFAULT.table_bytes::<InOrder32>();
    // A pool that was wiped under its records.
    for off in (table..bytes).step_by(4) {
        // SAFETY: a unit of the region, which has no owner now.
        unsafe { region.store(off, 0) }
    }
    let OpenFailure {
        error: e, region, ..
    } = open(region, 0, Update::Refuse).err().unwrap();
    let heap = pmem_tx::OpenError::Damaged(pmem_tx::Component::Heap);
    assert_eq!(e, OpenError::Pool(heap));
    assert_eq!(region.len(), bytes);
}

/// A new run begins in the area of the run before last. With numbers of a few bits a stale record
/// there may carry the new run's first number: it must not count, for any lengths of the runs.
#[test]
fn records_of_the_run_before_last_do_not_count() {
    fn go<M: Model>(bits: u8)
    where
        M::Unit: Width,
    {
        fn boot<'m, M: Model>(
            region: Region<'m, M>,
            bits: u8,
            update: Update,
            version: u16,
        ) -> Replay<'m, u32, M>
        where
            M::Unit: Width,
        {
            let options = Options {
                table: Config {
                    seq_bits: bits,
                    ..Config::DEFAULT
                },
                version,
                update,
                ..Options::default()
            };
            Replay::open(region, options, |_| Ok(0)).unwrap()
        }
        let steps = |rt: &mut Replay<'_, u32, M>, from: u32, n: u32| {
            for i in from..n {
                rt.named(0).step_own::<_, u32>(i, |_, _, i| Ok(i)).unwrap();
            }
        };
        // The record counts of two runs, and how many records the third keeps.
        for (first, second, kept) in (0..90).map(|i| (i % 10, i / 10, i % 3)) {
            let mut m = memory();
            let mut region = Region::<M>::new(&mut m);
            let mut had = 0;
            for (version, n) in [first, second, 3].into_iter().enumerate() {
                let kept = kept.min(had);
                let update = Update::Keep(kept as u16);
                let mut rt = boot(region, bits, update, version as u16);
                // After the kept records the program is live.
                assert_eq!(rt.is_live(), kept == 0, "{first} {second} {kept}");
                steps(&mut rt, 0, kept);
                assert!(rt.is_live(), "{first} {second} {kept}");
                let mut rt = boot(rt.close(), bits, Update::Refuse, version as u16);
                steps(&mut rt, 0, kept);
                assert!(rt.is_live(), "{first} {second} {kept}");
                steps(&mut rt, kept, n);
                had = n.max(kept);
                region = rt.close();
            }
        }
    }
    for bits in 3..=4 {
        go::<InOrder16>(bits);
        go::<InOrder32>(bits);
    }
}

/// Among some thousand shorter loops some have the hash of the recorded one: none continues in an
/// iteration that it does not have.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn no_loop_goes_on_beyond_its_end() {
    fn program(rt: &mut Rt<'_>, from: u32, to: u32) -> Result<(), Error> {
        rt.named(1).each_with(from..to, (), |_, i, ()| {
            if i >= 30 { Err(Error::Other) } else { Ok(()) }
        })
    }
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, 0, 40), Err(Error::Other));
    let mut collided = 0;
    for (from, to) in (100..300).flat_map(|from| (1..20).map(move |n| (from, from + n))) {
        rt = open(rt.close(), 0, Update::Refuse).unwrap();
        assert_eq!(
            program(&mut rt, from, to),
            Err(Error::Diverged),
            "{from}..{to}"
        );
        let what = rt.divergence().unwrap().mismatch;
        assert!(
            matches!(what, Mismatch::Arguments | Mismatch::RecordsRemain),
            "{what:?}"
        );
        collided += u32::from(what == Mismatch::RecordsRemain);
    }
    assert!(collided > 0, "the iteration was never needed");
    rt = open(rt.close(), 0, Update::Refuse).unwrap();
    assert_eq!(program(&mut rt, 0, 40), Err(Error::Other));
}
