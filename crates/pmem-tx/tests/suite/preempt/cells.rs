//! A cell moves from one context to the other while its tag still has a number of the first.

use crate::preempt::On;
use crate::preempt::model::{BYTES, CONFIG, memory};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use pmem_tx::{Context, Contexts, Error, Failed, Held, PBox, Pool, Ptr, Width};
use powerfail::{Mapped, Summary, World, explore_with};

#[derive(Persist)]
#[repr(C)]
struct Item<'p, W: Width> {
    cell: Ptr<'p, [u16; 4], W>,
}
#[derive(Persist)]
#[repr(C)]
struct Top<'p, W: Width> {
    done: u32,
    item: Option<PBox<'p, Item<'p, W>, W>>,
}
type Own<W> = Top<'static, W>;
type One<'c, M> = Context<'c, Own<<M as Model>::Unit>, M>;
type Two<'m, M> = Pool<'m, Contexts<(Own<<M as Model>::Unit>, Own<<M as Model>::Unit>)>, M>;

/// The operation of the cell's new owner.
#[derive(Debug, Clone, Copy)]
enum How {
    /// Frees it; the old owner uses up a round of numbers meanwhile.
    Free,
    /// Writes it in a nested transaction that is undone; the same.
    Nested,
    /// Writes it, while the old owner settles its stale tags.
    Write,
}

fn open<M: Model>(region: Region<'_, M>) -> Two<'_, M>
where
    M::Unit: Width,
{
    Two::<M>::open_with(region, &CONFIG, |tx| {
        let cell = Ptr::new(tx, [1; 4])?;
        let item = Some(PBox::new(tx, Item { cell })?);
        Ok((
            Top { done: 0, item },
            Top {
                done: 0,
                item: None,
            },
        ))
    })
    .unwrap_or_else(|r| panic!("open: {r}"))
}

/// Uses up a round of numbers, and one.
fn round<M: Model>(c: &mut One<'_, M>)
where
    M::Unit: Width,
{
    for _ in 0..8 {
        let r = c.tx(|tx, root| {
            *root.fields(tx).done.get_mut()? += 1;
            Ok(())
        });
        assert_eq!(r, Ok(()));
    }
}

fn value<M: Model>(c: &mut One<'_, M>) -> Option<u16>
where
    M::Unit: Width,
{
    c.tx(|tx, root| {
        let item = root.get(tx).item.as_ref();
        Ok(item.map(|i| i.get(tx).cell.read(tx)[0]))
    })
    .unwrap()
}

fn use_it<M: Model>(c: &mut One<'_, M>, how: How) -> Result<(), Error>
where
    M::Unit: Width,
{
    c.tx(|tx, root| {
        match how {
            How::Free => {
                if let Some(item) = root.get_mut(tx)?.item.take() {
                    let old = item.into_inner(tx)?.cell.into_inner(tx)?;
                    assert_eq!(old, [5; 4]);
                }
            }
            How::Nested => {
                let r = tx.nested(root, |tx, root| {
                    if let Some(mut item) = root.fields(tx).item.follow() {
                        item.fields().cell.write([9; 4])?;
                    }
                    Err::<(), _>(tx.abort(1))
                });
                assert_eq!(r, Err(Error::Aborted(1)));
            }
            How::Write => {
                if let Some(mut item) = root.fields(tx).item.follow() {
                    item.fields().cell.write([9; 4])?;
                }
            }
        }
        *root.fields(tx).done.get_mut()? += 1;
        Ok(())
    })
}

fn program<M: Model>(nv: Region<'_, M>, world: &World<'_, u32>, how: &How)
where
    M::Unit: Width,
{
    let mut pool = open(nv);
    let (mut old, mut new) = pool.contexts();
    let done = new.tx(|tx, root| Ok(root.get(tx).done)).unwrap();
    assert!(
        done >= world.get(),
        "{} acknowledged, {done} found",
        world.get()
    );
    let after = match (how, done) {
        (How::Free, 1) => None,
        (How::Write, 1) => Some(9),
        _ => Some(5),
    };
    match (value(&mut old), value(&mut new)) {
        (Some(v), None) => assert_eq!((v, done), (1, 0)),
        (None, v) if done > 0 || v.is_some() => {
            assert_eq!(v, after, "{how:?} {done}");
            return;
        }
        // The handle was in volatile memory when the power failed.
        (None, None) => return,
        both => panic!("{both:?}"),
    }
    let held = old
        .tx_own::<(), Held<Item<'static, M::Unit>, M::Unit>, _>((), |tx, root, ()| {
            let root = root.get_mut(tx)?;
            let Some(mut item) = root.item.take() else {
                return Err(tx.abort(2));
            };
            item.fields(tx).cell.write([5; 4])?;
            Ok(item)
        })
        .map_err(|f: Failed<()>| f.error)
        .unwrap();
    new.tx_with(held, |tx, root, item| {
        root.get_mut(tx)?.item = Some(item);
        Ok(())
    })
    .map_err(|f| f.error)
    .unwrap();
    let mut use_it = || {
        assert_eq!(use_it(&mut new, *how), Ok(()));
        world.acknowledge(1);
    };
    match how {
        How::Write => world.interrupted(use_it, || round(&mut old)),
        _ => world.interrupted(|| round(&mut old), &mut use_it),
    }
    let after = match how {
        How::Free => None,
        How::Nested => Some(5),
        How::Write => Some(9),
    };
    assert_eq!(value(&mut new), after, "{how:?}");
    // Undone changes stay undone when numbers repeat.
    round(&mut old);
    assert_eq!(value(&mut new), after, "{how:?}");
}

fn image<M: Model>() -> Vec<u8>
where
    M::Unit: Width,
{
    let mut words = memory();
    open::<M>(Region::new(&mut words)).close();
    crate::preempt::model::bytes(&words)
}

fn on<M: Model>(how: How) -> Summary
where
    M::Unit: Width,
{
    explore_with(how, Mapped::<M>::new(BYTES), |nv, w, how| {
        program::<M>(nv, w, how)
    })
    .image(image::<M>())
    .limit(16)
    .preempt()
    .run()
}

fn all(how: How) {
    for s in [
        on::<On<InOrder32>>(how),
        on::<On<InOrder16>>(how),
        on::<On<Buffered32>>(how),
    ] {
        println!("{s}");
        assert!(s.partial || s.points > 40, "{s}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_cell_that_moves_and_is_freed() {
    all(How::Free)
}
#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_cell_that_moves_and_is_restored() {
    all(How::Nested)
}
#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_cell_that_moves_and_is_written() {
    all(How::Write)
}
