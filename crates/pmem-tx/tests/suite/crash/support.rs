//! A program with every kind of operation, and the content that each boot must find.
//!
//! The root counts the committed operations. After a boot the content must be that of the model
//! after exactly so many operations, and the count must be the acknowledged one or one more.

use crate::crash::node::{List, Node, values};
use nvmem::{Model, Persist, Region};
use pmem_tx::{Config, Error, PBox, Pool, Ptr, Width};

#[derive(Persist)]
#[repr(C)]
pub struct Top<'p, W: Width> {
    pub done: u32,
    pub list: List<'p, W>,
    pub cell: Option<Ptr<'p, [u16; 4], W>>,
    pub pair: [u32; 3],
}

/// The visible content of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    pub list: Vec<u32>,
    pub cell: [u16; 4],
    pub pair: [u32; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Push(u32),
    Pop,
    /// Field by field and element by element.
    Fields(u32),
    /// The first node of the list, if there is one.
    Node(u32),
    Cell(u16),
    /// A cell twice, and the whole root.
    CellTwice(u16),
    /// Everything, then an abort: only the count goes up, in a transaction of its own.
    Abort(u32),
    /// An inner transaction that is undone and one that is kept.
    Nested(u32),
    /// The cell is freed and made again.
    NewCell(u16),
    /// Allocated and freed in one transaction.
    Churn,
}

impl Op {
    pub fn apply(self, s: &mut View) {
        match self {
            Op::Push(v) => s.list.insert(0, v),
            Op::Pop => drop((!s.list.is_empty()).then(|| s.list.remove(0))),
            Op::Fields(v) => s.pair = [v, s.pair[1], v + 2],
            Op::Node(v) => s.list.iter_mut().take(1).for_each(|x| *x += v),
            Op::Cell(v) => s.cell = [v; 4],
            Op::CellTwice(v) => {
                s.cell = [v + 1; 4];
                s.pair[1] = v as u32;
            }
            Op::Abort(_) | Op::Churn => {}
            Op::Nested(v) => {
                s.pair = [v, v + 1, v];
                s.list.insert(0, v);
            }
            Op::NewCell(v) => s.cell = [v; 4],
        }
    }
}

pub fn model(ops: &[Op]) -> View {
    let mut v = View::default();
    ops.iter().for_each(|o| o.apply(&mut v));
    v
}

pub const CONFIG: Config = Config {
    journal_entries: 10,
    journal_bytes: 96,
    // Numbers 1 to 7: wraps are frequent.
    seq_bits: 3,
};

pub type TestPool<'m, M> = Pool<'m, Top<'static, <M as Model>::Unit>, M>;

pub fn open<M: Model>(region: Region<'_, M>) -> TestPool<'_, M>
where
    M::Unit: Width,
{
    TestPool::<M>::open_with(region, &CONFIG, |tx| {
        Ok(Top {
            done: 0,
            list: None,
            cell: Some(Ptr::new(tx, [0; 4])?),
            pair: [0; 3],
        })
    })
    .unwrap_or_else(|r| panic!("open: {r}"))
}

pub fn view<M: Model>(pool: &mut TestPool<'_, M>) -> (u32, View)
where
    M::Unit: Width,
{
    pool.tx(|tx, root| {
        let r = root.get(tx);
        let list = values(&r.list, tx);
        let cell = r.cell.as_ref().map_or([0; 4], |c| c.read(tx));
        Ok((
            r.done,
            View {
                list,
                cell,
                pair: r.pair,
            },
        ))
    })
    .unwrap()
}

pub fn run<M: Model>(pool: &mut TestPool<'_, M>, op: Op) -> Result<(), Error>
where
    M::Unit: Width,
{
    match op {
        Op::Push(v) => pool.tx(|tx, root| {
            let r = root.get_mut(tx)?;
            let next = r.list.take();
            r.list = Some(PBox::new(tx, Node { v, next })?);
            r.done += 1;
            Ok(())
        }),
        Op::Pop => pool.tx(|tx, root| {
            let r = root.get_mut(tx)?;
            if let Some(n) = r.list.take() {
                r.list = n.into_inner(tx)?.next;
            }
            r.done += 1;
            Ok(())
        }),
        Op::Fields(v) => pool.tx(|tx, root| {
            let mut f = root.fields(tx);
            *f.pair.at_mut(2)? = v + 2;
            *f.pair.at_mut(0)? = v;
            *f.done.get_mut()? += 1;
            // A second access logs nothing, and its stores are undone all the same.
            *f.pair.at_mut(0)? = v;
            Ok(())
        }),
        Op::Node(v) => pool.tx(|tx, root| {
            let mut f = root.fields(tx);
            *f.done.get_mut()? += 1;
            if let Some(mut n) = f.list.follow() {
                *n.fields().v.get_mut()? += v;
            }
            Ok(())
        }),
        Op::Cell(v) => pool.tx(|tx, root| {
            let mut f = root.fields(tx);
            *f.done.get_mut()? += 1;
            f.cell.write([v; 4])
        }),
        Op::CellTwice(v) => pool.tx(|tx, root| {
            let r = root.get_mut(tx)?;
            r.done += 1;
            r.pair[1] = v as u32;
            if let Some(c) = &mut r.cell {
                c.write(tx, [v; 4])?;
                c.write(tx, [v + 1; 4])?;
            }
            Ok(())
        }),
        Op::Abort(v) => {
            let r = pool.tx(|tx, root| {
                let r = root.get_mut(tx)?;
                r.done += 100;
                if let Some(c) = &mut r.cell {
                    c.write(tx, [v as u16; 4])?;
                }
                let old = r.list.take();
                let next = match old {
                    Some(n) => n.into_inner(tx)?.next,
                    None => None,
                };
                r.list = Some(PBox::new(tx, Node { v, next })?);
                Err::<(), _>(tx.abort(9))
            });
            assert_eq!(r, Err(Error::Aborted(9)));
            pool.tx(|tx, root| {
                *root.fields(tx).done.get_mut()? += 1;
                Ok(())
            })
        }
        Op::Nested(v) => pool.tx(|tx, root| {
            root.get_mut(tx)?.pair = [v; 3];
            let r = tx.nested(root, |tx, root| {
                let r = root.get_mut(tx)?;
                r.done += 50;
                r.pair = [0; 3];
                r.list = Some(PBox::new(
                    tx,
                    Node {
                        v: 77,
                        next: r.list.take(),
                    },
                )?);
                Err::<(), _>(tx.abort(1))
            });
            assert_eq!(r, Err(Error::Aborted(1)));
            assert_eq!(root.get(tx).pair, [v; 3]);
            tx.nested(root, |tx, root| {
                let r = root.get_mut(tx)?;
                r.pair[1] += 1;
                r.list = Some(PBox::new(
                    tx,
                    Node {
                        v,
                        next: r.list.take(),
                    },
                )?);
                Ok(())
            })?;
            root.get_mut(tx)?.done += 1;
            Ok(())
        }),
        Op::NewCell(v) => pool.tx(|tx, root| {
            let r = root.get_mut(tx)?;
            if let Some(c) = r.cell.take() {
                c.into_inner(tx)?;
            }
            r.cell = Some(Ptr::new(tx, [v; 4])?);
            r.done += 1;
            Ok(())
        }),
        Op::Churn => pool.tx(|tx, root| {
            *root.fields(tx).done.get_mut()? += 1;
            let a = PBox::new(tx, [1u32; 2])?;
            let b = PBox::new(tx, [2u16; 3])?;
            a.free(tx)?;
            b.free(tx)?;
            Ok(())
        }),
    }
}
