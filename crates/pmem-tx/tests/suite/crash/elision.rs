//! Why `Ptr` keeps two versions: leaving out the log in place, as IntOS 7.3 does, loses the old
//! value as soon as the transaction runs again with another input.

use nvmem::{InOrder32, Region};
use powerfail::{Failure, Mapped, World, explore};

/// One 4-byte object at 0 and a commit word at 8. The transaction writes the object before it reads
/// it, so nothing is logged. The input may differ between runs.
fn elided(nv: Region<'_, InOrder32>, world: &World<'_, (u32, u32)>) {
    // SAFETY: units of the region, never lent.
    let (get, put) = (
        |off| unsafe { nv.load(off) },
        |off, v| unsafe { nv.store(off, v) },
    );
    let (boots, committed) = world.get();
    assert_eq!(
        get(0),
        committed,
        "the value of a transaction that did not commit"
    );
    world.set((boots + 1, committed));
    if get(8) == 0 && boots == 0 {
        // The sensor has a value: write it, commit.
        put(0, 7);
        put(8, 1);
        world.set((boots + 1, 7));
    }
    // On the second run the sensor has none, and the transaction does not write at all.
}

#[test]
fn elision_in_place_shows_an_uncommitted_value() {
    let r: Result<_, Failure> =
        explore(Mapped::<InOrder32>::new(16), |nv, w: &World<(u32, u32)>| {
            elided(nv, w)
        })
        .try_run();
    let e = r.unwrap_err();
    assert!(e.report().contains("did not commit"), "{e}");
}

/// The same program with a two-version cell.
fn two_versions(nv: Region<'_, InOrder32>, world: &World<'_, (u32, u32)>) {
    use pmem_tx::{Config, Pool, Ptr};
    let mut pool =
        Pool::<Option<Ptr<u32>>>::open_with(nv, &Config::SMALL, |tx| Ok(Some(Ptr::new(tx, 0)?)))
            .unwrap();
    let read = |pool: &mut Pool<'_, Option<Ptr<'static, u32>>>| {
        pool.tx(|tx, r| Ok(r.get(tx).as_ref().map(|c| c.read(tx))))
            .unwrap()
    };
    let (boots, committed) = world.get();
    let v = read(&mut pool);
    assert!(
        v == Some(committed) || v == Some(7) && boots <= 1,
        "{v:?} after {committed}"
    );
    world.set((boots + 1, v.unwrap()));
    if v == Some(0) && boots == 0 {
        pool.tx(|tx, r| {
            // The handle itself does not change: only a lent slot is needed, and no entry for it.
            match r.get_mut(tx)?.as_mut() {
                Some(c) => c.write(tx, 7),
                None => Err(tx.abort(0)),
            }
        })
        .unwrap();
        world.set((boots + 1, 7));
    }
}

#[test]
fn two_versions_show_no_uncommitted_value() {
    explore(
        Mapped::<InOrder32>::new(512),
        |nv, w: &World<(u32, u32)>| two_versions(nv, w),
    )
    .depth(2)
    .run();
}
