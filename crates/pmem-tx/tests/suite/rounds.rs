//! Stale entries and tags of an earlier round of numbers, or of another context, must not be taken
//! for valid ones.
//!
//! A cut is a transaction that was prepared and forgotten, followed by an open. Each test starts at
//! each number of a round, on each model.

use core::mem::MaybeUninit;
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use pmem_tx::{Config, Contexts, Error, PBox, Pool, Ptr, Width};

/// Numbers 1 to 7, and a journal that one transaction can fill.
const CONFIG: Config = Config {
    journal_entries: 4,
    journal_bytes: 64,
    seq_bits: 3,
};
const ROUND: u32 = 7;

#[derive(Persist)]
#[repr(C)]
struct Top<'p, W: Width> {
    /// Every second one is used: an entry each.
    field: [u32; 10],
    cell: Ptr<'p, u16, W>,
    other: Ptr<'p, u16, W>,
}
type P<'m, M> = Pool<'m, Top<'static, <M as Model>::Unit>, M>;

fn open<M: Model>(region: Region<'_, M>) -> P<'_, M>
where
    M::Unit: Width,
{
    open_with(region, &CONFIG)
}

fn open_with<'m, M: Model>(region: Region<'m, M>, config: &Config) -> P<'m, M>
where
    M::Unit: Width,
{
    P::<M>::open_with(region, config, |tx| {
        Ok(Top {
            field: [0; 10],
            cell: Ptr::new(tx, 0)?,
            other: Ptr::new(tx, 0)?,
        })
    })
    .unwrap_or_else(|r| panic!("open: {r}"))
}

fn memory() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 128]
}

/// Sets the first `n` of the fields, each with an entry of its own, in one transaction.
fn set<M: Model>(pool: &mut P<'_, M>, n: usize, v: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    pool.tx(|tx, root| {
        let mut f = root.fields(tx);
        (0..n).try_for_each(|i| f.field.at_mut(2 * i).map(|x| *x = v))
    })
}

fn cells<M: Model>(pool: &mut P<'_, M>) -> (u16, u16)
where
    M::Unit: Width,
{
    pool.tx(|tx, r| Ok((r.get(tx).cell.read(tx), r.get(tx).other.read(tx))))
        .unwrap()
}

/// Another transaction in which only the second cell is written, and that fails.
fn abort<M: Model>(pool: &mut P<'_, M>)
where
    M::Unit: Width,
{
    let r = pool.tx(|tx, root| {
        root.fields(tx).other.write(99)?;
        Err::<(), _>(tx.abort(0))
    });
    assert_eq!(r, Err(Error::Aborted(0)));
}

fn a_cell_left_alone<M: Model>()
where
    M::Unit: Width,
{
    for before in 0..ROUND {
        for rounds in [1, 2] {
            let mut m = memory();
            let mut pool = open::<M>(Region::new(&mut m));
            for i in 0..before {
                set(&mut pool, 1, i).unwrap();
            }
            let number = pool.context().next_seq();
            pool.tx(|tx, r| r.fields(tx).cell.write(5)).unwrap();
            for i in 1..rounds * ROUND {
                set(&mut pool, 1, i).unwrap();
            }
            assert_eq!(pool.context().next_seq(), number);
            // The transaction with its number fails, ...
            abort(&mut pool);
            assert_eq!(cells(&mut pool), (5, 0), "{number}");
            // ... writes it and fails, ...
            let r = pool.tx(|tx, r| {
                r.fields(tx).cell.write(6)?;
                Err::<(), _>(tx.abort(0))
            });
            assert_eq!(
                (r, cells(&mut pool)),
                (Err(Error::Aborted(0)), (5, 0)),
                "{number}"
            );
            // ... or is cut.
            let mut pool = open(pool.close());
            assert_eq!(cells(&mut pool), (5, 0), "{number}");
            set(&mut pool, 1, 1).unwrap();
            assert_eq!(cells(&mut pool), (5, 0), "{number}");
        }
    }
}

fn a_full_journal<M: Model>()
where
    M::Unit: Width,
{
    for before in 0..ROUND {
        for short in 1..4 {
            let mut m = memory();
            let mut pool = open::<M>(Region::new(&mut m));
            assert!(matches!(
                set(&mut pool, 5, 1),
                Err(Error::JournalFull { .. })
            ));
            for i in 0..before {
                set(&mut pool, 1, i).unwrap();
            }
            let number = pool.context().next_seq();
            set(&mut pool, 4, 100).unwrap();
            // A round of transactions with one entry each; the first ones change the fields that
            // the full one changed.
            for i in 1..ROUND as usize {
                let at = 2 * (i % 4);
                pool.tx(|tx, r| r.fields(tx).field.at_mut(at).map(|x| *x += 100))
                    .unwrap();
            }
            assert_eq!(pool.context().next_seq(), number);
            let before = pool.tx(|tx, r| Ok(r.get(tx).field)).unwrap();
            // The same number again, with fewer entries, cut before its commit.
            let committed = if number == 1 { ROUND } else { number - 1 };
            let reopen = |region| {
                Pool::<Top<'static, M::Unit>, M>::open_resolved(
                    region,
                    &CONFIG,
                    |_| committed,
                    |_| Err(Error::Aborted(0)),
                )
                .unwrap_or_else(|r| panic!("open: {r}"))
            };
            let mut pool = reopen(pool.close());
            let mut c = pool.context();
            let p = c.prepare::<(), (), _>((), |tx, root, ()| {
                let mut f = root.fields(tx);
                (0..short).try_for_each(|i| f.field.at_mut(2 * i).map(|x| *x = 7))
            });
            assert_eq!(p.as_ref().map(|p| p.seq()).ok(), Some(number));
            core::mem::forget(p);
            let mut pool = reopen(pool.close());
            let mut c = pool.context();
            let p = c.prepare::<(), [u32; 10], _>((), |tx, r, ()| Ok(r.get(tx).field));
            assert_eq!(
                p.ok().map(|p| p.committed()),
                Some(before),
                "{number}, {short}"
            );
        }
    }
}

type Cell<W> = Ptr<'static, u16, W>;

/// The second context has committed as many transactions as the first one has, and one more.
fn a_cell_of_another_context<M: Model>()
where
    M::Unit: Width,
{
    type Two<W> = Contexts<(Cell<W>, Cell<W>)>;
    fn both<M: Model>(region: Region<'_, M>) -> Pool<'_, Two<M::Unit>, M>
    where
        M::Unit: Width,
    {
        Pool::open_with(region, &CONFIG, |tx| {
            Ok((Ptr::new(tx, 0)?, Ptr::new(tx, 0)?))
        })
        .unwrap_or_else(|r| panic!("open: {r}"))
    }
    for before in 0..ROUND as u16 {
        for first in [false, true] {
            let mut m = memory();
            let mut pool = both::<M>(Region::new(&mut m));
            {
                let (mut a, mut b) = pool.contexts();
                for v in 1..=before {
                    a.tx(|tx, r| r.get_mut(tx)?.write(tx, v)).unwrap();
                    b.tx(|tx, r| r.get_mut(tx)?.write(tx, v)).unwrap();
                }
                // One is ahead of the other, whose transaction with the same number fails, and is
                // then cut.
                let (ahead, behind) = if first {
                    (&mut a, &mut b)
                } else {
                    (&mut b, &mut a)
                };
                ahead.tx(|tx, r| r.get_mut(tx)?.write(tx, 50)).unwrap();
                let r = behind.tx(|tx, r| {
                    r.get_mut(tx)?.write(tx, 60)?;
                    Err::<(), _>(tx.abort(0))
                });
                assert_eq!(r, Err(Error::Aborted(0)));
                assert_eq!(ahead.tx(|tx, r| Ok(r.get(tx).read(tx))), Ok(50));
                assert_eq!(behind.tx(|tx, r| Ok(r.get(tx).read(tx))), Ok(before));
            }
            let mut pool = both(pool.close());
            let (mut a, mut b) = pool.contexts();
            let read = [
                a.tx(|tx, r| Ok(r.get(tx).read(tx))).unwrap(),
                b.tx(|tx, r| Ok(r.get(tx).read(tx))).unwrap(),
            ];
            let [a, b] = if first { [50, before] } else { [before, 50] };
            assert_eq!(read, [a, b], "after {before}");
        }
    }
}

/// A migration is one of a pool's transactions: later commits stay, over any number of opens.
fn after_a_migration<M: Model>()
where
    M::Unit: Width,
{
    #[derive(Persist)]
    #[repr(C)]
    struct New<'p, W: Width> {
        field: u32,
        boxed: PBox<'p, u32, W>,
    }
    let config = Config {
        journal_entries: 8,
        ..CONFIG
    };
    for before in 0..ROUND {
        let mut m = memory();
        let mut pool = open_with::<M>(Region::new(&mut m), &config);
        for i in 1..=before {
            set(&mut pool, 1, i).unwrap();
        }
        let mut region = pool.close();
        for done in before..before + 3 * ROUND {
            let mut pool =
                Pool::<New<'static, M::Unit>, M>::migrate::<Top<'static, M::Unit>, _, _>(
                    region,
                    &config,
                    |_| Err(Error::Aborted(0)),
                    |tx, old| {
                        old.cell.into_inner(tx)?;
                        old.other.into_inner(tx)?;
                        let field = old.field[0];
                        Ok(New {
                            field,
                            boxed: PBox::new(tx, field)?,
                        })
                    },
                )
                .unwrap_or_else(|r| panic!("migrate: {r}"));
            let seen = pool.tx(|tx, r| Ok((r.get(tx).field, *r.get(tx).boxed.get(tx))));
            assert_eq!(seen, Ok((done, done)));
            assert_eq!(pool.audit().map(|a| (a.blocks, a.unreachable)), Ok((2, 0)));
            pool.tx(|tx, r| {
                let r = r.get_mut(tx)?;
                r.field += 1;
                *r.boxed.get_mut(tx)? += 1;
                Ok(())
            })
            .unwrap();
            region = pool.close();
        }
    }
}

macro_rules! models {
    ($($name:ident)*) => {
        mod in_order_32 { use super::*; $(#[test] fn $name() { super::$name::<InOrder32>() })* }
        mod in_order_16 { use super::*; $(#[test] fn $name() { super::$name::<InOrder16>() })* }
        mod buffered_32 { use super::*; $(#[test] fn $name() { super::$name::<Buffered32>() })* }
    };
}
models!(a_cell_left_alone a_full_journal a_cell_of_another_context after_a_migration);

/// Transactions in pieces, one after the other, in each round: their numbers, what is undone, and
/// who is asked.
fn pieces<M: Model>()
where
    M::Unit: Width,
{
    let mut m = memory();
    let opened = Pool::<u32, M>::open_resolved(Region::new(&mut m), &CONFIG, |_| 0, |_| Ok(0));
    let mut pool = opened.unwrap_or_else(|r| panic!("open: {r}"));
    let mut c = pool.context();
    c.start().unwrap();
    for i in 0..3 * ROUND {
        assert_eq!(c.next_seq(), i % ROUND + 1);
        // A body that fails, and one that wants its caller to be asked.
        for asks in [false, true] {
            let r = c.run_started(|tx, n| {
                *n.get_mut(tx)? += 100;
                if asks {
                    tx.ask_before_commit();
                    return Ok(());
                }
                Err(tx.abort(1))
            });
            assert_eq!(r.is_ok(), asks);
            let open = c.reborrow().resume(|| Err(Error::Aborted(2)));
            assert_eq!(open.err(), Some(Error::Aborted(2)));
            c.start().unwrap();
        }
        // One that is undone when all is prepared, and one that commits.
        for commits in [false, true] {
            let r = c.run_started(|tx, n| n.get_mut(tx).map(|n| *n += 1));
            r.unwrap();
            let open = c.reborrow().resume(|| Err(Error::Aborted(3)));
            let ready = open.expect("nobody is asked").prepare();
            assert_eq!(ready.seq(), i % ROUND + 1);
            if commits {
                ready.committed();
                c.start_next();
            } else {
                drop(ready);
                c.start().unwrap();
            }
        }
        c.run_started(|tx, n| {
            assert_eq!(*n.get(tx), i + 1);
            Ok(())
        })
        .unwrap();
        c.start().unwrap();
    }
}

#[test]
fn pieces_of_transactions() {
    pieces::<InOrder16>();
    pieces::<InOrder32>();
    pieces::<Buffered32>();
}
