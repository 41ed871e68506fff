//! Two contexts whose commit words belong to the caller, open at the same time; and migration.
//!
//! Behind a buffer, where a cut leaves the most states, one of the campaigns is cut twice in each
//! run.

use crate::crash::node::{List, Node, values};
use crate::crash::support::{CONFIG, Top};
use crate::turns::in_turn;
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region, mapped};
use pmem_tx::{Context, Contexts, Error, OpenError, PBox, Pool, Sharing, Width};
use powerfail::{Mapped, World, explore};

type Two<W> = Contexts<(List<'static, W>, List<'static, W>)>;

/// The caller's commit words: one unit each, in a region of the caller's.
struct Words<'r, M>(Region<'r, M>);
impl<M: Model> Words<'_, M> {
    fn at(ctx: usize) -> usize {
        ctx * size_of::<M::Unit>()
    }
    fn get(&self, ctx: usize) -> u32 {
        // SAFETY: a unit of the region, never lent.
        unsafe { self.0.load(Self::at(ctx)) }
    }
    fn commit(&self, ctx: usize, seq: u32) {
        // SAFETY: as above.
        unsafe { self.0.store(Self::at(ctx), seq) }
        mapped::fence::<M>();
    }
}

fn items<M: Model>(c: &mut Context<'_, List<'static, M::Unit>, M>) -> Vec<u32>
where
    M::Unit: Width,
{
    let mut v = Vec::new();
    let r = c.prepare::<(), (), _>((), |tx, root, ()| {
        v = values(root.get(tx), tx);
        Err(tx.abort(0))
    });
    assert!(matches!(
        r.map(drop).map_err(|f| f.error),
        Err(Error::Aborted(0))
    ));
    v
}

/// Moves the value at the head of the first list to the second in two transactions that overlap:
/// the first has freed its node and is prepared, the second allocates, commits, and only then the
/// first commits.
fn overlap<M: Model>(nv: (Region<'_, M>, Region<'_, M>), world: &World<'_, u32>)
where
    M::Unit: Width,
{
    let words = Words::<M>(nv.1);
    let mut pool = Pool::<Two<M::Unit>, M>::open_resolved(
        nv.0,
        &CONFIG,
        |ctx| words.get(ctx),
        |tx| {
            let node = |v, next| PBox::new(tx, Node { v, next });
            Ok((Some(node(1, Some(node(2, None)?))?), None))
        },
    )
    .unwrap_or_else(|r| panic!("open: {r}"));
    pool.reclaim();
    assert_eq!(pool.audit().map(|a| a.unreachable), Ok(0));
    let (mut a, mut b) = pool.contexts();
    let (mut left, mut right) = (items(&mut a), items(&mut b));
    assert!(left.len() <= 2 && right.len() <= 3, "{left:?} {right:?}");
    assert!([vec![1, 2], vec![2], vec![]].contains(&left), "{left:?}");
    assert!(right.iter().all(|v| (10..13).contains(v)), "{right:?}");
    let sure = world.get();
    // The second list's commit comes first.
    assert!(
        right.len() as u32 >= sure && left.len() as u32 <= 2 - sure.min(2),
        "{sure}: {left:?} {right:?}"
    );
    while right.len() < 3 && !left.is_empty() {
        let pa = a
            .prepare::<(), (), _>((), |tx, root, ()| {
                let head = root.get_mut(tx)?;
                if let Some(n) = head.take() {
                    *head = n.into_inner(tx)?.next;
                }
                Ok(())
            })
            .map_err(|f| f.error)
            .unwrap();
        let v = 10 + right.len() as u32;
        let pb = b
            .prepare::<u32, (), _>(v, |tx, root, v| {
                let head = root.get_mut(tx)?;
                *head = Some(PBox::new(
                    tx,
                    Node {
                        v,
                        next: head.take(),
                    },
                )?);
                Ok(())
            })
            .map_err(|f| f.error)
            .unwrap();
        words.commit(1, pb.seq());
        pb.committed();
        words.commit(0, pa.seq());
        pa.committed();
        (left, right) = (items(&mut a), items(&mut b));
        world.acknowledge(2 - left.len() as u32);
    }
}

#[test]
fn contexts_overlap() {
    macro_rules! model {
        ($m:ty, $depth:expr) => {
            explore(
                (Mapped::<$m>::new(768), Mapped::<$m>::new(16)),
                |nv, world: &World<u32>| overlap::<$m>(nv, world),
            )
            .depth($depth)
            .run()
        };
    }
    let all = [
        model!(InOrder32, 2),
        model!(InOrder16, 2),
        model!(Buffered32, in_turn(0, 3)),
    ];
    for s in all {
        println!("{s}");
        assert!(s.partial || s.boots > 20, "{s}");
    }
}

/// The root of a later version of the program: the list as it was, a wider count, no cell.
#[derive(Persist)]
#[repr(C)]
struct Later<'p, W: Width> {
    done: u64,
    list: List<'p, W>,
}

fn migration<M: Model>(region: Region<'_, M>, world: &World<'_, bool>)
where
    M::Unit: Width,
{
    let old = |region| {
        Pool::<Top<'static, M::Unit>, M>::open_with(region, &CONFIG, |tx| {
            Ok(Top {
                done: 3,
                list: Some(PBox::new(tx, Node { v: 5, next: None })?),
                cell: Some(pmem_tx::Ptr::new(tx, [1; 4])?),
                pair: [0; 3],
            })
        })
    };
    // The old program runs once; if the new one has already run, the open refuses it.
    let region = match old(region) {
        Ok(pool) => {
            assert!(
                !world.get(),
                "the old pool is back after the new one was seen"
            );
            pool.close()
        }
        Err(r) => {
            assert!(matches!(r.error, OpenError::LayoutMismatch(_)), "{r}");
            r.region
        }
    };
    let mut pool = Pool::<Later<'static, M::Unit>, M>::migrate::<Top<'static, M::Unit>, _, _>(
        region,
        &CONFIG,
        |_| Err(Error::Aborted(1)),
        |tx, mut old| {
            if let Some(c) = old.cell.take() {
                c.into_inner(tx)?;
            }
            Ok(Later {
                done: old.done as u64 + 1,
                list: old.list,
            })
        },
    )
    .unwrap_or_else(|r| panic!("migrate: {r}"));
    world.set(true);
    let seen = pool.tx(|tx, root| {
        let r = root.get(tx);
        Ok((r.done, r.list.as_ref().map(|n| n.get(tx).v)))
    });
    assert_eq!(seen, Ok((4, Some(5))));
    assert_eq!(pool.audit().map(|a| (a.blocks, a.unreachable)), Ok((2, 0)));
}

#[test]
fn migration_is_all_or_nothing() {
    macro_rules! model {
        ($m:ty, $depth:expr) => {
            explore(Mapped::<$m>::new(768), |nv, world: &World<bool>| {
                migration::<$m>(nv, world)
            })
            .depth($depth)
            .run()
        };
    }
    let all = [
        model!(InOrder32, 2),
        model!(InOrder16, 2),
        model!(Buffered32, in_turn(1, 3)),
    ];
    for s in all {
        println!("{s}");
        assert!(s.partial || s.boots > 20, "{s}");
    }
}

/// The shared root of a later version.
type Board<W> = Option<PBox<'static, Node<'static, W>, W>>;

/// Own and shared roots change together, and an object goes from one to another.
fn migration_of_roots<M: Model>(region: Region<'_, M>, world: &World<'_, bool>)
where
    M::Unit: Width,
{
    type Old<W> = Sharing<(u16,), Contexts<(List<'static, W>, u32)>>;
    type New<W> = Sharing<(Board<W>,), Contexts<(u64, [u32; 3])>>;
    let old = Pool::<Old<M::Unit>, M>::open_with(region, &CONFIG, |tx| {
        Ok(((7,), (Some(PBox::new(tx, Node { v: 5, next: None })?), 9)))
    });
    let region = match old {
        Ok(pool) => {
            assert!(!world.get(), "the old pool is back");
            pool.close()
        }
        Err(r) => {
            assert!(matches!(r.error, OpenError::LayoutMismatch(_)), "{r}");
            r.region
        }
    };
    let mut pool = Pool::<New<M::Unit>, M>::migrate::<Old<M::Unit>, _, _>(
        region,
        &CONFIG,
        |_| Err(Error::Aborted(1)),
        |_, ((seven,), (list, nine))| Ok(((list,), (seven.into(), [nine; 3]))),
    )
    .unwrap_or_else(|r| panic!("migrate: {r}"));
    world.set(true);
    {
        let ((mut one, mut two), (mut board,)) = pool.share().unwrap();
        let seen = one.tx_with(&mut board, |tx, own, board| {
            Ok((*own.get(tx), board.get(tx).as_ref().map(|n| n.get(tx).v)))
        });
        assert_eq!(seen.map_err(|f| f.error), Ok((7, Some(5))));
        assert_eq!(two.tx(|tx, own| Ok(*own.get(tx))), Ok([9; 3]));
    }
    assert_eq!(pool.audit().map(|a| (a.blocks, a.unreachable)), Ok((4, 0)));
}

#[test]
fn migration_of_all_roots() {
    macro_rules! model {
        ($m:ty, $depth:expr) => {
            explore(Mapped::<$m>::new(1024), |nv, world: &World<bool>| {
                migration_of_roots::<$m>(nv, world)
            })
            .depth($depth)
            .run()
        };
    }
    let all = [
        model!(InOrder32, 2),
        model!(InOrder16, 2),
        model!(Buffered32, in_turn(2, 3)),
    ];
    for s in all {
        println!("{s}");
        assert!(s.partial || s.boots > 20, "{s}");
    }
}
