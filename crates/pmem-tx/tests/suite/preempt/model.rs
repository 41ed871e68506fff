//! A program of two contexts, and the content that each boot must find.

use crate::crash::node::{List, Node, values};
use nvmem::{Model, Persist, Region};
use pmem_tx::{Config, Context, Contexts, Error, OpenFailure, PBox, Pool, Ptr, Section, Width};
use powerfail::{World, masked};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// The section of the tests: in it, the kit does not interrupt.
pub enum Masked {}
thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}
// SAFETY: one thread, and the kit interrupts nothing in it.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        struct Out;
        impl Drop for Out {
            fn drop(&mut self) {
                INSIDE.set(false)
            }
        }
        masked(|| {
            assert!(!INSIDE.replace(true), "a section in a section");
            let _out = Out;
            f()
        })
    }
}

#[derive(Persist)]
#[repr(C)]
pub struct Top<'p, W: Width> {
    pub done: u32,
    pub list: List<'p, W>,
    pub big: Option<PBox<'p, [u32; 8], W>>,
    pub cell: Option<Ptr<'p, [u16; 4], W>>,
    pub pair: [u32; 2],
}

/// The visible content of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    list: Vec<u32>,
    big: Option<u32>,
    cell: u16,
    pair: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Push(u32),
    Pop,
    /// A large object instead of the one there, if any.
    Big(u32),
    Update(u32),
    Cell(u16),
    NewCell(u16),
    /// Everything, then an abort; only the count goes up.
    Abort(u32),
    /// An inner transaction that allocates and is undone, in one that allocates and commits.
    Nested(u32),
}

impl Op {
    fn apply(self, v: &mut View) {
        match self {
            Op::Push(n) | Op::Nested(n) => v.list.insert(0, n),
            Op::Pop => drop((!v.list.is_empty()).then(|| v.list.remove(0))),
            Op::Big(n) => v.big = Some(n),
            Op::Update(n) => v.pair = n,
            Op::Cell(n) | Op::NewCell(n) => v.cell = n,
            Op::Abort(_) => {}
        }
    }
}

/// The operations before the test, those of the low-priority context, and those that interrupt it.
#[derive(Debug, Clone)]
pub struct Case {
    /// In a pool with space for three nodes only: a context that finds it full skips the operation
    /// and continues later.
    pub tight: bool,
    pub before: Vec<Op>,
    pub low: Vec<Op>,
    pub high: Vec<Op>,
}

pub const CONFIG: Config = Config {
    journal_entries: 10,
    journal_bytes: 128,
    // Numbers 1 to 7; the stale ones are swept with 3 and with 7.
    seq_bits: 3,
};
pub const BYTES: usize = 1024;

pub type Own<W> = Top<'static, W>;
pub type Two<'m, M> = Pool<'m, Contexts<(Own<<M as Model>::Unit>, Own<<M as Model>::Unit>)>, M>;
pub type One<'c, M> = Context<'c, Own<<M as Model>::Unit>, M>;
pub type Open<'c, M> = (One<'c, M>, One<'c, M>);

pub fn memory() -> [MaybeUninit<u64>; BYTES / 8] {
    [MaybeUninit::new(0); BYTES / 8]
}

pub fn open<M: Model>(region: Region<'_, M>) -> Two<'_, M>
where
    M::Unit: Width,
{
    try_open(region).unwrap_or_else(|r| panic!("open: {r}"))
}

fn try_open<M: Model>(region: Region<'_, M>) -> Result<Two<'_, M>, OpenFailure<'_, M>>
where
    M::Unit: Width,
{
    Two::<M>::open_with(region, &CONFIG, |tx| {
        let node = |v, next| Ok::<_, Error>(Some(PBox::new(tx, Node { v, next })?));
        let top = |list, cell| Top {
            done: 0,
            list,
            big: None,
            cell,
            pair: [0; 2],
        };
        // Four blocks that are not free, where a search leaves its section. The high-priority
        // context can join the last of them with the free ones after it.
        let low = node(2, None)?;
        let low = node(1, low)?;
        let cell = Some(Ptr::new(tx, [0; 4])?);
        let high = node(1, None)?;
        for _ in 0..2 {
            let _: Option<PBox<'_, Node<'_, M::Unit>, _>> = node(0, None)?;
        }
        Ok((top(low, cell), top(high, Some(Ptr::new(tx, [0; 4])?))))
    })
}

/// A pool that was formatted and opened once: the open has nothing to do, and searches begin at the
/// first block.
pub fn image<M: Model>(tight: bool) -> Vec<u8>
where
    M::Unit: Width,
{
    let mut words = memory();
    let mut n = words.len();
    if tight {
        // The shortest that has a block for one node beside the two.
        let room = |n: usize| {
            let mut words = memory();
            let _ = try_open::<M>(Region::new(&mut words[..n])).ok()?;
            let mut pool = try_open::<M>(Region::new(&mut words[..n])).ok()?;
            pool.audit().ok().map(|a| a.free)
        };
        let one = size_of::<Node<'static, M::Unit>>() + 8;
        n = (1..n)
            .find(|n| room(*n).is_some_and(|free| free >= 3 * one))
            .unwrap_or(n);
    }
    open::<M>(Region::new(&mut words[..n])).close();
    open::<M>(Region::new(&mut words[..n])).close();
    bytes(&words[..n])
}

pub fn bytes(words: &[MaybeUninit<u64>]) -> Vec<u8> {
    // SAFETY: initialised when it was made; stores to a region leave no byte otherwise.
    let word = |w: &MaybeUninit<u64>| unsafe { w.assume_init() }.to_le_bytes();
    words.iter().flat_map(word).collect()
}

fn view<M: Model>(c: &mut One<'_, M>) -> (u32, View)
where
    M::Unit: Width,
{
    c.tx(|tx, root| {
        let r = root.get(tx);
        let list = values(&r.list, tx);
        let cell = r.cell.as_ref().map_or([0; 4], |c| c.read(tx));
        assert_eq!(cell, [cell[0]; 4], "half a cell");
        assert_eq!(r.pair, [r.pair[0]; 2], "half an update");
        let big = r.big.as_ref().map(|b| *b.get(tx));
        assert!(big.is_none_or(|b| b == [b[0]; 8]), "half an object");
        let v = View {
            list,
            big: big.map(|b| b[0]),
            cell: cell[0],
            pair: r.pair[0],
        };
        Ok((r.done, v))
    })
    .unwrap()
}

fn step<M: Model>(c: &mut One<'_, M>, op: Op) -> Result<(), Error>
where
    M::Unit: Width,
{
    c.tx(|tx, root| {
        let mut f = root.fields(tx);
        if !matches!(op, Op::Abort(_)) {
            *f.done.get_mut()? += 1;
        }
        match op {
            Op::Push(v) => {
                let head = f.list.get_mut()?;
                let next = head.take();
                *head = Some(PBox::new(tx, Node { v, next })?);
            }
            Op::Pop => {
                let head = f.list.get_mut()?;
                if let Some(n) = head.take() {
                    *head = n.into_inner(tx)?.next;
                }
            }
            Op::Big(v) => {
                let big = f.big.get_mut()?;
                if let Some(old) = big.take() {
                    old.free(tx)?;
                }
                *big = Some(PBox::new(tx, [v; 8])?);
            }
            Op::Update(v) => f.pair.set([v; 2])?,
            Op::Cell(v) => f.cell.write([v; 4])?,
            Op::NewCell(v) => {
                let cell = f.cell.get_mut()?;
                if let Some(c) = cell.take() {
                    c.into_inner(tx)?;
                }
                *cell = Some(Ptr::new(tx, [v; 4])?);
            }
            Op::Abort(v) => {
                f.cell.write([v as u16; 4])?;
                let head = f.list.get_mut()?;
                let next = match head.take() {
                    Some(n) => n.into_inner(tx)?.next,
                    None => None,
                };
                *head = Some(PBox::new(tx, Node { v, next })?);
                return Err(tx.abort(9));
            }
            Op::Nested(v) => {
                let r = tx.nested(root, |tx, root| {
                    let head = root.fields(tx).list.into_mut()?;
                    let next = head.take();
                    *head = Some(PBox::new(tx, Node { v: 77, next })?);
                    Err::<(), _>(tx.abort(9))
                });
                assert_eq!(r, Err(Error::Aborted(9)));
                let head = root.fields(tx).list.into_mut()?;
                let next = head.take();
                *head = Some(PBox::new(tx, Node { v, next })?);
            }
        }
        Ok(())
    })
}

/// Runs the operation; skips it if the pool is full and that is allowed.
fn go<M: Model>(c: &mut One<'_, M>, op: Op, tight: bool) -> bool
where
    M::Unit: Width,
{
    let r = step(c, op);
    if tight && matches!(r, Err(Error::PoolFull { .. })) {
        return false;
    }
    if matches!(op, Op::Abort(_)) {
        assert_eq!(r, Err(Error::Aborted(9)));
        let r = c.tx(|tx, root| {
            *root.fields(tx).done.get_mut()? += 1;
            Ok(())
        });
        assert_eq!(r, Ok(()));
    } else {
        assert_eq!(r, Ok(()), "{op:?}");
    }
    true
}

/// The operations that a context has done: the acknowledged ones, or one more.
fn check<M: Model>(c: &mut One<'_, M>, ops: &[Op], list: &[u32], sure: u32) -> u32
where
    M::Unit: Width,
{
    let (done, seen) = view(c);
    assert!(
        done == sure || done == sure + 1,
        "{sure} acknowledged, {done} found"
    );
    let mut v = View {
        list: list.to_vec(),
        big: None,
        cell: 0,
        pair: 0,
    };
    ops[..done as usize].iter().for_each(|o| o.apply(&mut v));
    assert_eq!(seen, v, "after {done} operations of {ops:?}");
    done
}

/// The operations, in as many rounds, by a context that begins.
pub fn program<M: Model>(c: &mut One<'_, M>, ops: &[Op], list: &[u32], rounds: usize)
where
    M::Unit: Width,
{
    let ops = ops.repeat(rounds);
    for op in &ops {
        assert!(go(c, *op, false));
    }
    check(c, &ops, list, ops.len() as u32);
}

/// Continues after the operations that were committed before the cut.
pub fn run<M: Model>(nv: Region<'_, M>, world: &World<'_, (u32, u32)>, case: &Case)
where
    M::Unit: Width,
{
    let mut pool = open(nv);
    assert_eq!(pool.audit().map(|a| a.unreachable), Ok(0));
    let (mut low, mut high) = pool.contexts();
    let lows: Vec<Op> = case.before.iter().chain(&case.low).copied().collect();
    let sure = world.get();
    let (mut a, mut b) = (
        check(&mut low, &lows, &[1, 2], sure.0),
        check(&mut high, &case.high, &[1], sure.1),
    );
    if sure != (a, b) {
        world.set((a, b));
    }
    while (a as usize) < case.before.len() {
        go(&mut low, lows[a as usize], false);
        a += 1;
        world.update(|w| w.0 = a);
    }
    let mut interrupt = || {
        while let Some(op) = case.high.get(b as usize)
            && go(&mut high, *op, case.tight)
        {
            b += 1;
            world.update(|w| w.1 = b);
        }
    };
    world.interrupted(&mut interrupt, || {
        while let Some(op) = lows.get(a as usize)
            && go(&mut low, *op, case.tight)
        {
            a += 1;
            world.update(|w| w.0 = a);
        }
    });
    if case.tight {
        interrupt();
    }
    let sure = world.get();
    assert!(sure.1 as usize == case.high.len());
    check(&mut low, &lows, &[1, 2], sure.0);
    check(&mut high, &case.high, &[1], sure.1);
}
