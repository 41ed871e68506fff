// A pool with all kinds of content, and operations on one that opened. For one model `M` with
// handles of width `W`.
//
// A fuzz target includes this file in a module that defines `M` and `W`. It calls `image` once and
// `attack` for each input. The file uses only the public interface.

use core::mem::MaybeUninit;
use pmem_tx::nvmem::{Maybe, Persist, Region};
use pmem_tx::{Config, Contexts, Error, PBox, Pool, Ptr};

#[derive(Persist)]
#[repr(u8)]
pub enum Kind {
    Empty = 1,
    Number(u32) = 3,
    Letter(char) = 9,
}

#[derive(Persist)]
#[repr(C)]
pub struct Node<'p> {
    v: u32,
    flag: bool,
    kind: Kind,
    next: Option<PBox<'p, Node<'p>, W>>,
}

type Maybe32<'p> = Option<PBox<'p, u32, W>>;

#[derive(Persist)]
#[repr(C)]
pub struct Top<'p> {
    n: u32,
    list: Option<PBox<'p, Node<'p>, W>>,
    cell: Option<Ptr<'p, [bool; 3], W>>,
    owner: Option<Ptr<'p, Maybe32<'p>, W>>,
    maybe: Maybe<bool>,
    last: [u16; 3],
}

pub type Roots = Contexts<(Top<'static>, Option<PBox<'static, Node<'static>, W>>)>;
pub type Words = Vec<MaybeUninit<u64>>;
pub const CONFIG: Config = Config {
    journal_entries: 10,
    journal_bytes: 96,
    seq_bits: 4,
};

fn top<'p>() -> Top<'p> {
    Top {
        n: 0,
        list: None,
        cell: None,
        owner: None,
        maybe: Maybe::None,
        last: [0; 3],
    }
}

fn open(words: &mut [MaybeUninit<u64>]) -> Option<Pool<'_, Roots, M>> {
    Pool::open_with(Region::new(words), &CONFIG, |_| Ok((top(), None))).ok()
}

/// A sound image of `words` words: lists, cells, two contexts, free blocks, stale journals, and
/// with `doubt` a transaction of each context that is not committed.
pub fn image(words: usize, doubt: bool) -> Words {
    let mut m = vec![MaybeUninit::new(0); words];
    let mut pool = open(&mut m).expect("a blank region");
    {
        let (mut a, mut b) = pool.contexts();
        for v in 0..3 {
            a.tx(|tx, r| {
                let t = r.get_mut(tx)?;
                let kind = [Kind::Empty, Kind::Number(7), Kind::Letter('x')];
                let kind = kind.into_iter().nth(v).ok_or(tx.abort(0))?;
                t.list = Some(PBox::new(tx, Node {
                        v: v as u32,
                        flag: v == 1,
                        kind,
                        next: t.list.take(),
                    })?);
                if v == 1 {
                    t.cell = Some(Ptr::new(tx, [true, false, true])?);
                    let inner = PBox::new(tx, 5u32)?;
                    t.owner = Some(Ptr::new(tx, Some(inner))?);
                }
                t.maybe = Maybe::Some(true);
                Ok(())
            })
            .expect("it fits");
            b.tx(|tx, r| {
                let next = r.get_mut(tx)?.take();
                *r.get_mut(tx)? = Some(PBox::new(tx, Node {
                        v: 9,
                        flag: true,
                        kind: Kind::Empty,
                        next,
                    })?);
                Ok(())
            })
            .expect("it fits");
        }
        for flag in [false, true] {
            a.tx(|tx, r| r.fields(tx).cell.write([flag; 3]))
                .expect("a cell");
        }
        b.tx(|tx, r| {
            let first = r.get_mut(tx)?.take().ok_or(tx.abort(0))?;
            *r.get_mut(tx)? = first.into_inner(tx)?.next;
            Ok(())
        })
        .expect("a free block");
    }
    let seqs = {
        let (a, b) = pool.contexts();
        [a.next_seq() - 1, b.next_seq() - 1]
    };
    if doubt {
        let mut pool = Pool::<Roots, M>::open_resolved(
            pool.close(),
            &CONFIG,
            |i| seqs[i],
            |_| Err(Error::Aborted(0)),
        )
        .expect("sound");
        pool.reclaim();
        let (mut a, mut b) = pool.contexts();
        let p = a.prepare::<_, (), _>((), |tx, r, ()| {
            let t = r.get_mut(tx)?;
            t.n = 99;
            let first = t.list.take().ok_or(tx.abort(0))?.into_inner(tx)?;
            t.list = first.next;
            r.fields(tx).cell.write([false; 3])
        });
        let q = b.prepare::<_, (), _>((), |tx, r, ()| {
            let next = r.get_mut(tx)?.take();
            *r.get_mut(tx)? = Some(PBox::new(tx, Node {
                    v: 1,
                    flag: false,
                    kind: Kind::Empty,
                    next,
                })?);
            Ok(())
        });
        core::mem::forget((p.expect("it fits"), q.expect("it fits")));
    }
    m
}

/// The bits are those of a `bool`. Read as a byte: a `bool` of 2 would not show itself.
fn sound(b: &bool) -> bool {
    // SAFETY: a byte of a live reference.
    unsafe { core::ptr::from_ref(b).cast::<u8>().read_volatile() < 2 }
}

fn read<'p>(top: &Top<'p>, tx: &pmem_tx::Tx<'p, M>) -> Result<(usize, u32), Error> {
    let mut sum = top.n.wrapping_add(top.last[0].into());
    assert!(top.maybe.as_ref().is_none_or(sound));
    if let Some(c) = &top.cell {
        assert!(c.get(tx).iter().all(sound));
    }
    if let Some(Some(b)) = top.owner.as_ref().map(|o| o.get(tx)) {
        sum = sum.wrapping_add(*b.get(tx));
    }
    let (n, more) = walk(&top.list, tx);
    Ok((n, sum.wrapping_add(more)))
}

fn walk<'p>(list: &Option<PBox<'p, Node<'p>, W>>, tx: &pmem_tx::Tx<'p, M>) -> (usize, u32) {
    let (mut n, mut sum, mut at) = (0, 0u32, list);
    while let Some(b) = at {
        let node = b.get(tx);
        assert!(sound(&node.flag));
        sum = sum.wrapping_add(match &node.kind {
            Kind::Empty => 0,
            Kind::Number(v) => *v,
            Kind::Letter(c) => {
                char::from_u32(*c as u32).map_or_else(|| panic!("no letter"), u32::from)
            }
        });
        n += 1;
        sum = sum.wrapping_add(node.v);
        at = &node.next;
    }
    (n, sum)
}

/// Changes all content, then fails or not. Full journals and pools are accepted.
fn churn<'p>(
    tx: &pmem_tx::Tx<'p, M>,
    root: &mut pmem_tx::Root<'p, Top<'p>, W>,
    ok: bool,
) -> Result<(), Error> {
    let mut s = root.fields(tx);
    s.cell.write([ok; 3])?;
    s.cell.write([!ok; 3])?;
    s.n.set(1)?;
    *s.last.at_mut(1)? = 3;
    let _ = tx.nested(root, |tx, root| {
        let mut s = root.fields(tx);
        s.cell.write([true; 3])?;
        s.maybe.set(Maybe::None)?;
        let t = root.get_mut(tx)?;
        t.list = Some(PBox::new(tx, Node {
                v: 2,
                flag: false,
                kind: Kind::Number(1),
                next: t.list.take(),
            })?);
        if ok { Ok(()) } else { Err(tx.abort(2)) }
    });
    if let Some(mut node) = root.fields(tx).list.follow() {
        node.get_mut()?.flag ^= true;
    }
    if ok { Ok(()) } else { Err(tx.abort(1)) }
}

/// The bytes before and behind each region that is attacked.
const GUARD: [u64; 64] = [0x6775_6172_6465_6421; 64];

/// Opens an image of any bytes. If that succeeds, everything reachable must be sound, transactions
/// must work, and everything can be freed. Nothing outside of the image may be written. Returns
/// whether it opened.
pub fn attack(words: &mut [MaybeUninit<u64>]) -> bool {
    guarded(words, attack_one)
}

/// Runs `f` on a copy of the image that has neighbours, and compares them.
fn guarded<T>(words: &[MaybeUninit<u64>], f: impl FnOnce(&mut [MaybeUninit<u64>]) -> T) -> T {
    let guard = GUARD.map(MaybeUninit::new);
    let mut memory = [&guard, words, &guard].concat();
    let end = GUARD.len() + words.len();
    let told = f(&mut memory[GUARD.len()..end]);
    for guard in [&memory[..GUARD.len()], &memory[end..]] {
        // SAFETY: written above; all writes are of whole units.
        let kept = guard
            .iter()
            .zip(GUARD)
            .all(|(w, g)| unsafe { w.assume_init() } == g);
        assert!(kept, "something was written outside of the region");
    }
    told
}

fn attack_one(words: &mut [MaybeUninit<u64>]) -> bool {
    let Some(mut pool) = open(words) else {
        return false;
    };
    let before = pool.audit().expect("open has checked everything");
    {
        let (mut a, mut b) = pool.contexts();
        let old = a.tx(|tx, r| read(r.get(tx), tx)).expect("reading");
        b.tx(|tx, r| Ok(walk(r.get(tx), tx))).expect("reading");
        // One that leaves the cells alone, so that a tag may meet the number that it claims.
        let _ = a.tx(|tx, r| {
            let n = *r.fields(tx).n.get();
            r.fields(tx).n.set(n)
        });
        for _ in 0..3 {
            a.tx(|tx, r| churn(tx, r, false)).expect_err("aborted");
            assert_eq!(
                a.tx(|tx, r| read(r.get(tx), tx)),
                Ok(old),
                "an abort changes nothing"
            );
        }
        let _ = a.tx(|tx, r| churn(tx, r, true));
        for i in 0..8 {
            let _ = a.tx(|tx, r| r.fields(tx).n.set(i));
            let _ = a.tx(|tx, r| {
                let _ = r.fields(tx).cell.write([true; 3]);
                Err::<(), _>(tx.abort(0))
            });
            a.tx(|tx, r| read(r.get(tx), tx)).expect("reading");
        }
    }
    let now = pool.audit().expect("still sound");
    assert_eq!(now.used + now.free, before.used + before.free);
    // One object per transaction, so that no journal is too small.
    let (mut a, mut b) = pool.contexts();
    while let Ok(true) = a.tx(|tx, r| {
        let list = r.fields(tx).list.get_mut()?.take();
        Ok(match list {
            Some(node) => {
                let next = node.into_inner(tx)?.next;
                *r.fields(tx).list.get_mut()? = next;
                true
            }
            None => false,
        })
    }) {}
    while let Ok(true) = b.tx(|tx, r| {
        Ok(match r.get_mut(tx)?.take() {
            Some(node) => {
                *r.get_mut(tx)? = node.into_inner(tx)?.next;
                true
            }
            None => false,
        })
    }) {}
    let _ = a.tx(|tx, r| {
        let t = r.get_mut(tx)?;
        let (cell, owner) = (t.cell.take(), t.owner.take());
        if let Some(c) = cell {
            assert!(c.into_inner(tx)?.iter().all(sound));
        }
        if let Some(o) = owner
            && let Some(b) = o.into_inner(tx)?
        {
            b.free(tx)?;
        }
        Ok(())
    });
    let end = pool.audit().expect("still sound");
    assert_eq!(end.unreachable, 0, "nothing is lost");
    // An old journal header may claim the number of a later transaction: then this is an error, and
    // nothing else.
    if let Ok(mut pool) = Pool::<Roots, M>::open_with(pool.close(), &CONFIG, |_| Ok((top(), None)))
    {
        let (mut a, _) = pool.contexts();
        a.tx(|tx, r| read(r.get(tx), tx)).expect("reading");
    }
    true
}
