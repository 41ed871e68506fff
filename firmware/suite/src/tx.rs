//! Scenarios of `pmem-tx`: transactions that change one object in place. Those with several objects
//! are in `objects` and `contexts`, what they cost in `costs`.

use crate::{Group, Mapped, Scenario, Scene, check, ok, progress};
use nvmem::Persist;
use pmem_tx::{Config, Error, Pool};

/// The scenarios of the image `tx`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "tx",
            primitive: "pmem-tx",
            scenarios: &[
                Scenario::new("update", 400, update),
                Scenario::new("fields", 448, |scene| numbers(scene, 3, fields)),
                Scenario::new("abort", 448, |scene| numbers(scene, 2, abort)),
                Scenario::new("nested", 448, |scene| numbers(scene, 2, nested)),
                // More transactions than sequence numbers.
                Scenario::new("numbers_wrap", 448, |scene| numbers(scene, 9, fields)),
            ],
        }
    }
}

/// Two numbers that always agree.
fn update<M: Mapped>(scene: &mut Scene<'_, M>) {
    const CONFIG: Config = Config {
        journal_entries: 2,
        journal_bytes: 8,
        seq_bits: 16,
    };
    let region = scene.region();
    let mut pool = ok!(
        scene,
        Pool::<[u32; 2], M>::open_with(region, &CONFIG, |_| Ok([0, !0]))
    );
    let [a, b] = ok!(scene, pool.tx(|tx, root| Ok(*root.get(tx))));
    check!(scene, b == !a);
    progress!(scene, a as u16);
    for n in a as u16..scene.rounds(3) {
        ok!(
            scene,
            pool.tx(|tx, root| {
                let both = root.get_mut(tx)?;
                both[0] = u32::from(n) + 1;
                both[1] = !both[0];
                Ok(())
            })
        );
        scene.write_cell(0, n + 1);
    }
}

/// What `n` operations leave: their number, the last one of each place, the sum.
#[derive(Persist, Clone, Copy, PartialEq)]
#[repr(C)]
struct Numbers {
    done: u16,
    last: [u16; 3],
    sum: u32,
}

impl Numbers {
    fn after(n: u16) -> Self {
        let last = |place: u16| match n {
            n if n <= place => 0,
            n => (n - 1 - place) / 3 * 3 + place + 1,
        };
        let n32 = u32::from(n);
        Numbers {
            done: n,
            last: [last(0), last(1), last(2)],
            sum: n32 * (n32 + 1) / 2,
        }
    }
}

type NumberPool<'m, M> = Pool<'m, Numbers, M>;

/// Operations one after the other.
fn numbers<M: Mapped>(
    scene: &mut Scene<'_, M>,
    few: u16,
    operation: fn(&mut NumberPool<'_, M>, u16) -> Result<(), Error>,
) {
    const CONFIG: Config = Config {
        journal_entries: 6,
        journal_bytes: 32,
        // Numbers 1 to 7.
        seq_bits: 3,
    };
    let region = scene.region();
    let mut pool = ok!(
        scene,
        NumberPool::<M>::open_with(region, &CONFIG, |_| Ok(Numbers::after(0)))
    );
    let found = ok!(scene, pool.tx(|tx, root| Ok(*root.get(tx))));
    check!(scene, found == Numbers::after(found.done));
    progress!(scene, found.done);
    for n in found.done..scene.rounds(few) {
        ok!(scene, operation(&mut pool, n + 1));
        scene.write_cell(0, n + 1);
    }
    let found = ok!(scene, pool.tx(|tx, root| Ok(*root.get(tx))));
    check!(scene, found == Numbers::after(scene.rounds(few)));
}

/// Field by field, one element of the array.
fn fields<M: Mapped>(pool: &mut NumberPool<'_, M>, n: u16) -> Result<(), Error> {
    pool.tx(|tx, root| {
        let mut f = root.fields(tx);
        f.done.set(n)?;
        *f.last.at_mut(usize::from((n - 1) % 3))? = n;
        let sum = *f.sum.get() + u32::from(n);
        f.sum.set(sum)
    })
}

/// Everything is overwritten and taken back; then it is done.
fn abort<M: Mapped>(pool: &mut NumberPool<'_, M>, n: u16) -> Result<(), Error> {
    let r = pool.tx(|tx, root| {
        root.get_mut(tx)?.sum = 1;
        root.get_mut(tx)?.last = [n; 3];
        Err::<(), _>(tx.abort(n))
    });
    match r {
        Err(Error::Aborted(c)) if c == n => fields(pool, n),
        Err(e) => Err(e),
        Ok(()) => Err(Error::Aborted(0)),
    }
}

/// An inner transaction that is undone, and one that is kept.
fn nested<M: Mapped>(pool: &mut NumberPool<'_, M>, n: u16) -> Result<(), Error> {
    pool.tx(|tx, root| {
        root.fields(tx).done.set(n)?;
        let r = tx.nested(root, |tx, root| {
            let all = root.get_mut(tx)?;
            all.done = 0;
            all.last = [0; 3];
            Err::<(), _>(tx.abort(n))
        });
        if r != Err(Error::Aborted(n)) {
            return Err(Error::Aborted(0));
        }
        tx.nested(root, |tx, root| {
            *root.fields(tx).last.at_mut(usize::from((n - 1) % 3))? = n;
            Ok(())
        })?;
        let mut f = root.fields(tx);
        let sum = *f.sum.get() + u32::from(n);
        f.sum.set(sum)
    })
}
