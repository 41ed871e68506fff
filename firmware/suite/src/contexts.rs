//! Scenarios of `pmem-tx` with several roots: those of two contexts, and of two versions of a
//! program.

use crate::objects::{CONFIG, List, Node, values};
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use nvmem::{Persist, Region, Unit};
use pmem_tx::{Context, Contexts, Error, OpenError, PBox, Pool, Width};

/// The scenarios of the image `contexts`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "contexts",
            primitive: "pmem-tx",
            scenarios: &[
                Scenario::new("contexts", 640, contexts),
                Scenario::new("migrate", 512, migrate),
            ],
        }
    }
}

#[derive(Persist)]
#[repr(C)]
struct Top<'p, W: Width> {
    done: u16,
    list: List<'p, W>,
}

/// The caller's commit words, one unit each.
struct Words<'r, M>(Region<'r, M>);
impl<M: Mapped> Words<'_, M> {
    fn get(&self, ctx: usize) -> u32 {
        // SAFETY: a unit of the region, never lent.
        unsafe { self.0.load(ctx * M::Unit::BYTES) }
    }
    fn commit(&self, ctx: usize, seq: u32) {
        // SAFETY: as above.
        unsafe { self.0.store(ctx * M::Unit::BYTES, seq) };
        nvmem::mapped::fence::<M>();
    }
}

fn seen<M: Mapped>(
    c: &mut Context<'_, List<'static, M::Unit>, M>,
) -> Result<([u32; 3], u16), Error> {
    let mut v = ([0; 3], 0);
    let r = c.prepare::<(), (), _>((), |tx, root, ()| {
        v = values(root.get(tx), tx);
        Err(tx.abort(9))
    });
    match r.map(drop).map_err(|f| f.error) {
        Err(Error::Aborted(9)) => Ok(v),
        Err(e) => Err(e),
        Ok(()) => Err(Error::Aborted(0)),
    }
}

/// Two contexts with transactions that are open at the same time: one takes the head of its list
/// and is prepared, the other one puts a value into its own and commits, then the first commits.
/// The commit words are the caller's.
fn contexts<M: Mapped>(scene: &mut Scene<'_, M>) {
    type Both<W> = Contexts<(List<'static, W>, List<'static, W>)>;
    let region = scene.region();
    let Ok((region, words)) = region.split_at(640 - 8) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    let words = Words::<M>(words);
    let mut pool = ok!(
        scene,
        Pool::<Both<M::Unit>, M>::open_resolved(
            region,
            &CONFIG,
            |ctx| words.get(ctx),
            |tx| {
                let last = PBox::new(tx, Node { v: 2, next: None })?;
                let next = Some(last);
                Ok((Some(PBox::new(tx, Node { v: 1, next })?), None))
            },
        )
    );
    pool.reclaim();
    let audit = ok!(scene, pool.audit());
    check!(scene, audit.unreachable == 0);
    let (mut a, mut b) = pool.contexts();
    let (left, right) = (ok!(scene, seen(&mut a)), ok!(scene, seen(&mut b)));
    check!(
        scene,
        matches!(left, ([1, 2, 0], 2) | ([2, 0, 0], 1) | ([0, 0, 0], 0))
    );
    // A turn that was cut between the two commits has put its value, and puts another one.
    check!(scene, right.1 <= 3 && left.1 <= 2);
    let (mut taken, mut put) = (2 - left.1, right.1);
    check!(scene, put >= taken && taken >= scene.read_cell(0));
    check!(scene, put >= scene.read_cell(1));
    scene.write_cell(0, taken);
    scene.write_cell(1, put);
    while taken < 2 && put < 3 {
        let pa = a.prepare::<(), (), _>((), |tx, root, ()| {
            let head = root.get_mut(tx)?;
            let first = head.take().ok_or(tx.abort(1))?;
            *head = first.into_inner(tx)?.next;
            Ok(())
        });
        let pa = ok!(scene, pa.map_err(|f| f.error));
        let pb = b.prepare::<u32, (), _>(put.into(), |tx, root, v| {
            let head = root.get_mut(tx)?;
            let next = head.take();
            *head = Some(PBox::new(tx, Node { v: v + 10, next })?);
            Ok(())
        });
        let pb = ok!(scene, pb.map_err(|f| f.error));
        words.commit(1, pb.seq());
        pb.committed();
        put += 1;
        scene.write_cell(1, put);
        words.commit(0, pa.seq());
        pa.committed();
        taken += 1;
        scene.write_cell(0, taken);
    }
}

/// The root of a later version of the program: the list as it was, a wider count.
#[derive(Persist)]
#[repr(C)]
struct Later<'p, W: Width> {
    done: u64,
    list: List<'p, W>,
}

/// The old program makes an object; the new one, whose root is of another type, takes it over.
fn migrate<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let old = Pool::<Top<'static, M::Unit>, M>::open_with(region, &CONFIG, |tx| {
        let list = Some(PBox::new(tx, Node { v: 5, next: None })?);
        Ok(Top { done: 3, list })
    });
    let region = match old {
        Ok(pool) => {
            // The old pool must not be back after the new one was seen.
            check!(scene, scene.read_cell(0) == 0);
            pool.close()
        }
        Err(r) => {
            check!(scene, matches!(r.error, OpenError::LayoutMismatch(_)));
            r.region
        }
    };
    let mut pool = ok!(
        scene,
        Pool::<Later<'static, M::Unit>, M>::migrate::<Top<'static, M::Unit>, _, _>(
            region,
            &CONFIG,
            |_| Err(Error::Aborted(1)),
            |_, old| Ok(Later {
                done: u64::from(old.done) + 1,
                list: old.list,
            }),
        )
    );
    scene.write_cell(0, 1);
    let (done, list) = ok!(
        scene,
        pool.tx(|tx, root| Ok((root.get(tx).done, values(&root.get(tx).list, tx))))
    );
    check!(scene, done == 4 && list == ([5, 0, 0], 1));
    let audit = ok!(scene, pool.audit());
    check!(scene, audit.blocks == 2 && audit.unreachable == 0);
}
