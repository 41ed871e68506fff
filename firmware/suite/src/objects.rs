//! Scenarios of `pmem-tx` with several objects: behind handles, in lists, in cells of two versions.

use crate::{Group, Mapped, Scenario, Scene, check, ok, progress};
use nvmem::{Persist, Region};
use pmem_tx::{Config, PBox, Pool, Ptr, Tx, Width};

/// The scenarios of the image `objects`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "objects",
            primitive: "pmem-tx",
            scenarios: &[
                Scenario::new("two_objects", 512, two),
                Scenario::new("list", 512, list),
                Scenario::new("cell", 512, cell),
            ],
        }
    }
}

pub(crate) const CONFIG: Config = Config {
    journal_entries: 8,
    journal_bytes: 24,
    seq_bits: 3,
};

#[derive(Persist)]
#[repr(C)]
pub(crate) struct Node<'p, W: Width> {
    pub v: u32,
    pub next: Option<PBox<'p, Node<'p, W>, W>>,
}
pub(crate) type List<'p, W> = Option<PBox<'p, Node<'p, W>, W>>;

/// The root of all of them.
#[derive(Persist)]
#[repr(C)]
struct All<'p, W: Width> {
    done: u16,
    a: PBox<'p, u32, W>,
    b: PBox<'p, [u16; 2], W>,
    list: List<'p, W>,
    cell: Ptr<'p, [u16; 4], W>,
}
type AllPool<'m, M> = Pool<'m, All<'static, <M as nvmem::Model>::Unit>, M>;

/// What `a` and `b` have together.
const SHARED: u32 = 0x1_0002;

fn open<'m, M: Mapped>(scene: &Scene<'_, M>, region: Region<'m, M>) -> AllPool<'m, M> {
    ok!(
        scene,
        AllPool::<M>::open_with(region, &CONFIG, |tx| {
            Ok(All {
                done: 0,
                a: PBox::new(tx, SHARED)?,
                b: PBox::new(tx, [0; 2])?,
                list: None,
                cell: Ptr::new(tx, [0; 4])?,
            })
        })
    )
}

/// What one object loses the other one gains.
fn two<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let mut pool = open(scene, region);
    let (done, a, b) = ok!(
        scene,
        pool.tx(|tx, root| {
            let r = root.get(tx);
            Ok((r.done, *r.a.get(tx), *r.b.get(tx)))
        })
    );
    check!(scene, b == [done; 2]);
    check!(scene, a == SHARED - u32::from(done));
    progress!(scene, done);
    for n in done + 1..=scene.rounds(3) {
        ok!(
            scene,
            pool.tx(|tx, root| {
                let mut f = root.fields(tx);
                f.done.set(n)?;
                *f.a.follow().get_mut()? -= 1;
                *f.b.follow().get_mut()? = [n; 2];
                Ok(())
            })
        );
        scene.write_cell(0, n);
    }
}

/// The first values of a list, and how many there are.
pub(crate) fn values<'p, M: Mapped>(list: &List<'p, M::Unit>, tx: &Tx<'p, M>) -> ([u32; 3], u16) {
    let (mut v, mut n, mut at) = ([0; 3], 0u16, list);
    while let Some(node) = at {
        if let Some(v) = v.get_mut(usize::from(n)) {
            *v = node.get(tx).v;
        }
        n += 1;
        at = &node.get(tx).next;
    }
    (v, n)
}

/// Allocates and links twice, allocates and frees in one transaction, unlinks and frees twice.
fn list<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let mut pool = open(scene, region);
    let found = ok!(
        scene,
        pool.tx(|tx, root| Ok((root.get(tx).done, values(&root.get(tx).list, tx))))
    );
    let (done, (v, n)) = found;
    let base = u32::from(done - done % 5);
    let wanted = match done % 5 {
        0 => ([0, 0, 0], 0),
        1 | 4 => ([base, 0, 0], 1),
        _ => ([base + 1, base, 0], 2),
    };
    check!(scene, (v, n) == wanted);
    progress!(scene, done);
    for n in done..scene.rounds(5) {
        ok!(
            scene,
            pool.tx(|tx, root| {
                let top = root.get_mut(tx)?;
                top.done = n + 1;
                match n % 5 {
                    0 | 1 => {
                        let next = top.list.take();
                        top.list = Some(PBox::new(tx, Node { v: n.into(), next })?);
                    }
                    2 => {
                        let a = PBox::new(tx, [1u32; 3])?;
                        let b = PBox::new(tx, [2u16; 2])?;
                        a.free(tx)?;
                        b.free(tx)?;
                    }
                    _ => {
                        let first = top.list.take().ok_or(tx.abort(1))?;
                        top.list = first.into_inner(tx)?.next;
                    }
                }
                Ok(())
            })
        );
        scene.write_cell(0, n + 1);
    }
    let audit = ok!(scene, pool.audit());
    check!(scene, audit.unreachable == 0);
}

/// A cell with two versions, and a number beside it; more transactions than sequence numbers.
fn cell<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let mut pool = open(scene, region);
    let (done, cell) = ok!(
        scene,
        pool.tx(|tx, root| Ok((root.get(tx).done, root.get(tx).cell.read(tx))))
    );
    check!(scene, cell == [done, 0, done, done]);
    progress!(scene, done);
    for n in done + 1..=scene.rounds(8) {
        ok!(
            scene,
            pool.tx(|tx, root| {
                let mut f = root.fields(tx);
                f.cell.write([n, 0, n, n])?;
                f.done.set(n)
            })
        );
        scene.write_cell(0, n);
    }
}
