//! Ordinary use of a pool, without cuts.

use core::mem::MaybeUninit;
use nvmem::{InOrder16, InOrder32, List, Model, Persist, Region};
use pmem_tx::{Config, Contexts, Error, Held, OpenError, PBox, Pool, Ptr, Width};

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    v: u32,
    next: Option<PBox<'p, Node<'p>>>,
}
#[derive(Persist)]
#[repr(C)]
struct Top<'p> {
    n: u32,
    list: Option<PBox<'p, Node<'p>>>,
    cell: Option<Ptr<'p, [u16; 3]>>,
    last: [i16; 8],
}
type T = Top<'static>;

fn buffer(words: usize) -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); words]
}
fn open<'m>(region: Region<'m, InOrder32>) -> Pool<'m, T> {
    Pool::open(region, |_| {
        Ok(Top {
            n: 7,
            list: None,
            cell: None,
            last: [0; 8],
        })
    })
    .unwrap()
}
fn sum(pool: &mut Pool<'_, T>) -> u32 {
    pool.tx(|tx, root| {
        let (mut s, mut at) = (0, &root.get(tx).list);
        while let Some(b) = at {
            s += b.get(tx).v;
            at = &b.get(tx).next;
        }
        Ok(s)
    })
    .unwrap()
}
fn push(pool: &mut Pool<'_, T>, v: u32) -> Result<(), Error> {
    pool.tx(|tx, root| {
        let r = root.get_mut(tx)?;
        let next = r.list.take();
        r.list = Some(PBox::new(tx, Node { v, next })?);
        r.n += 1;
        Ok(())
    })
}

/// The walk sees the handles up to the length, and no removed one.
#[test]
fn a_list_of_handles() {
    type Jobs<'p> = List<PBox<'p, u32>, 3>;
    let mut b = buffer(128);
    let open = |region| Pool::<Jobs>::open(region, |_| Ok(List::new())).unwrap();
    let mut pool = open(Region::<InOrder32>::new(&mut b));
    pool.tx(|tx, jobs| {
        let jobs = jobs.get_mut(tx)?;
        for n in 1..=3 {
            assert!(jobs.push(PBox::new(tx, n)?).is_ok());
        }
        let fourth = PBox::new(tx, 4)?;
        jobs.push(fourth).unwrap_err().free(tx)
    })
    .unwrap();
    // Undone: the removed handle is back.
    let r = pool.tx(|tx, jobs| {
        let Some(last) = jobs.get_mut(tx)?.pop() else {
            return Err(tx.abort(1));
        };
        last.free(tx)?;
        Err::<(), _>(tx.abort(2))
    });
    assert_eq!(r, Err(Error::Aborted(2)));
    let mut pool = open(pool.close());
    let values = |pool: &mut Pool<'_, Jobs>| {
        pool.tx(|tx, jobs| Ok(jobs.get(tx).iter().map(|j| *j.get(tx)).collect::<Vec<_>>()))
    };
    assert_eq!(values(&mut pool), Ok(vec![1, 2, 3]));
    pool.tx(|tx, jobs| {
        let first = jobs.get_mut(tx)?.swap_remove(0);
        first.map_or(Ok(()), |first| first.free(tx))
    })
    .unwrap();
    let mut pool = open(pool.close());
    assert_eq!(values(&mut pool), Ok(vec![3, 2]));
    let audit = pool.audit().unwrap();
    assert_eq!((audit.blocks, audit.unreachable), (3, 0));
}

#[test]
fn format_commit_reopen() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    for v in 1..=5 {
        push(&mut pool, v).unwrap();
    }
    assert_eq!(sum(&mut pool), 15);
    let mut pool = open(pool.close());
    assert_eq!(sum(&mut pool), 15);
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)).unwrap(), 12);
    let a = pool.audit().unwrap();
    assert_eq!((a.blocks, a.unreachable), (6, 0));
}

#[test]
fn abort_undoes_everything() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    push(&mut pool, 5).unwrap();
    let before = pool.audit().unwrap();
    let e = pool.tx(|tx, root| {
        let r = root.get_mut(tx)?;
        let old = r.list.take().ok_or(Error::Aborted(1))?;
        assert_eq!(old.into_inner(tx)?.v, 5);
        r.list = Some(PBox::new(tx, Node { v: 9, next: None })?);
        Err::<(), _>(tx.abort(3))
    });
    assert_eq!(e, Err(Error::Aborted(3)));
    assert_eq!(sum(&mut pool), 5);
    let after = pool.audit().unwrap();
    assert_eq!((before.blocks, before.free), (after.blocks, after.free));
}

#[test]
fn a_nested_abort_undoes_only_itself() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    pool.tx(|tx, root| {
        root.get_mut(tx)?.n = 100;
        let r = tx.nested(root, |tx, root| {
            root.get_mut(tx)?.n = 200;
            root.get_mut(tx)?.list = Some(PBox::new(tx, Node { v: 1, next: None })?);
            Err::<(), _>(tx.abort(1))
        });
        assert_eq!(r, Err(Error::Aborted(1)));
        assert_eq!(root.get(tx).n, 100);
        assert!(root.get(tx).list.is_none());
        tx.nested(root, |tx, root| {
            root.get_mut(tx)?.n += 1;
            Ok(())
        })?;
        Ok(())
    })
    .unwrap();
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)).unwrap(), 101);
    let e = pool.tx(|tx, root| {
        let outer = tx;
        tx.nested(root, |_, _| {
            let _leak = PBox::new(outer, 1u32)?;
            Ok(())
        })
    });
    assert_eq!(e, Err(Error::OuterTransaction));
}

#[test]
fn cells_keep_two_versions() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    pool.tx(|tx, root| {
        root.get_mut(tx)?.cell = Some(Ptr::new(tx, [1, 2, 3])?);
        Ok(())
    })
    .unwrap();
    let write = |pool: &mut Pool<'_, T>, v: [u16; 3], ok: bool| {
        pool.tx(|tx, root| {
            let mut f = root.fields(tx);
            f.cell.get_mut()?.as_mut().unwrap().write(tx, v)?;
            if ok { Ok(()) } else { Err(tx.abort(0)) }
        })
    };
    let read =
        |pool: &mut Pool<'_, T>| pool.tx(|tx, r| Ok(r.get(tx).cell.as_ref().unwrap().read(tx)));
    write(&mut pool, [4, 5, 6], true).unwrap();
    assert_eq!(read(&mut pool), Ok([4, 5, 6]));
    write(&mut pool, [7, 8, 9], false).unwrap_err();
    assert_eq!(read(&mut pool), Ok([4, 5, 6]));
    let mut pool = open(pool.close());
    assert_eq!(read(&mut pool), Ok([4, 5, 6]));
    pool.tx(|tx, root| {
        let c = &mut root.get_mut(tx)?.cell;
        c.as_mut().unwrap().write(tx, [1; 3])?;
        assert_eq!(c.as_mut().unwrap().replace(tx, [2; 3])?, [1; 3]);
        Ok(())
    })
    .unwrap();
    let r = pool.tx(|tx, root| {
        root.get_mut(tx)?.cell.as_mut().unwrap().write(tx, [3; 3])?;
        let r = tx.nested(root, |tx, root| {
            root.get_mut(tx)?.cell.as_mut().unwrap().write(tx, [4; 3])?;
            Err::<(), _>(tx.abort(0))
        });
        assert!(r.is_err());
        Ok(root.get(tx).cell.as_ref().unwrap().read(tx))
    });
    assert_eq!(r, Ok([3; 3]));
    assert_eq!(read(&mut pool), Ok([3; 3]));
}

#[test]
fn fields_and_elements() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    pool.tx(|tx, root| {
        let mut f = root.fields(tx);
        let n = *f.n.get();
        f.n.set(n + 1)?;
        *f.last.at_mut(3)? = -4;
        assert_eq!(f.last.at_mut(8), Err(Error::Index { index: 8, len: 8 }));
        Ok(())
    })
    .unwrap();
    assert_eq!(
        pool.tx(|tx, r| Ok((r.get(tx).n, r.get(tx).last[3]))),
        Ok((8, -4))
    );
}

/// From element to element of an array of lists, and from node to node.
#[test]
fn elements_lead_to_objects() {
    type Lists = [Option<PBox<'static, u32>>; 3];
    let mut b = buffer(256);
    let region = Region::<InOrder32>::new(&mut b);
    let mut pool =
        Pool::<Contexts<(Lists,)>>::open(region, |_| Ok(([const { None }; 3],))).unwrap();
    let (mut only,) = pool.contexts();
    only.tx(|tx, lists| {
        let mut second = lists.slot(tx).into_at(1)?;
        *second.get_mut()? = Some(PBox::new(tx, 7)?);
        let outside = lists.slot(tx).into_at(3).map(drop);
        assert_eq!(outside, Err(Error::Index { index: 3, len: 3 }));
        Ok(())
    })
    .unwrap();
    only.tx(|tx, lists| {
        let number = lists.slot(tx).into_at(1)?.into_follow();
        *number.ok_or(tx.abort(1))?.into_mut()? += 1;
        assert!(lists.slot(tx).into_at(0)?.into_follow().is_none());
        Ok(())
    })
    .unwrap();
    let found = only.tx(|tx, lists| Ok(lists.get(tx)[1].as_ref().map(|n| *n.get(tx))));
    assert_eq!(found, Ok(Some(8)));
}

#[test]
fn held_handles_and_sessions() {
    let (mut b, mut c) = (buffer(256), buffer(256));
    let mut pool = open(Region::new(&mut b));
    let mut other = open(Region::new(&mut c));
    let mut h = pool
        .tx_own::<_, Held<Node<'static>>, _>((), |tx, _, ()| {
            PBox::new(tx, Node { v: 3, next: None })
        })
        .ok()
        .unwrap();
    let v = pool.tx_with((h.lend(), 4u32), |tx, _, (mut h, k)| {
        h.get_mut(tx)?.v += k;
        Ok(h.get(tx).v)
    });
    assert_eq!(v.ok(), Some(7));
    let r = other.tx_with(h, |tx, _, h| Ok(h.get(tx).v));
    let Err(f) = r else {
        panic!("a foreign handle")
    };
    assert_eq!(f.error, Error::WrongPool);
    let r = pool.tx_with(f.args, |tx, root, h| {
        root.get_mut(tx)?.list = Some(h);
        Err::<(), _>(tx.abort(9))
    });
    let Err(f) = r else { panic!("aborted") };
    pool.tx_with(f.args, |tx, root, h| {
        root.get_mut(tx)?.list = Some(h);
        Ok(())
    })
    .ok()
    .unwrap();
    assert_eq!(sum(&mut pool), 7);
}

#[test]
fn an_object_nobody_owns_is_reclaimed_at_open() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    push(&mut pool, 1).unwrap();
    push(&mut pool, 2).unwrap();
    pool.tx(|tx, root| {
        root.get_mut(tx)?.list = None;
        Ok(())
    })
    .unwrap();
    assert_eq!(pool.audit().unwrap().unreachable, 2);
    let mut pool = open(pool.close());
    let a = pool.audit().unwrap();
    assert_eq!((a.blocks, a.unreachable), (1, 0));
}

#[test]
fn a_walk_is_good_until_the_next_transaction() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    let held = pool
        .tx_own::<_, Held<Node<'static>>, _>((), |tx, _, ()| {
            PBox::new(tx, Node { v: 5, next: None })
        })
        .map_err(Error::from)
        .unwrap();
    pool.walk().unwrap();
    pool.tx(|tx, root| {
        root.get_mut(tx)?.list = Some(PBox::new(tx, Node { v: 5, next: None })?);
        Ok(())
    })
    .unwrap();
    assert_eq!(pool.reclaim(), 0, "a transaction has run");
    pool.walk().unwrap();
    assert_eq!(pool.reclaim(), 1, "the handle is of the session before");
    let r = pool.tx_with(held, |tx, _, h| Ok(h.get(tx).v));
    assert_eq!(r.map_err(Error::from), Err(Error::WrongPool));
    let mut pool = open(pool.close());
    assert_eq!(sum(&mut pool), 5);
}

#[test]
fn full_journal_full_pool_and_nothing_lost() {
    let mut b = buffer(100);
    let mut pool = open(Region::new(&mut b));
    let mut n = 0;
    let e = loop {
        match push(&mut pool, 1) {
            Ok(()) => n += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(e, Error::PoolFull { bytes: 8 });
    assert_eq!(sum(&mut pool), n);
    let e = pool.tx(|tx, root| {
        let r = root.get_mut(tx)?;
        while let Some(b) = r.list.take() {
            r.list = b.into_inner(tx)?.next;
        }
        Ok(())
    });
    assert!(matches!(e, Err(Error::JournalFull { .. })), "{e:?}");
    assert_eq!(sum(&mut pool), n);
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

#[test]
fn open_errors_name_the_reason() {
    let mut b = buffer(256);
    b[20] = MaybeUninit::new(77);
    let r = Pool::<u32>::open(Region::<InOrder32>::new(&mut b), |_| Ok(1));
    assert_eq!(r.err().unwrap().error, OpenError::Foreign);
    let mut b = buffer(8);
    let r = Pool::<u32>::open(Region::<InOrder32>::new(&mut b), |_| Ok(1));
    let OpenError::TooSmall { needed } = r.err().unwrap().error else {
        panic!()
    };
    let mut b = buffer(needed / 8);
    let pool = Pool::<u32>::open(Region::<InOrder32>::new(&mut b), |_| Ok(1)).unwrap();
    let r = Pool::<u64>::open(pool.close(), |_| Ok(1)).err().unwrap();
    assert!(matches!(r.error, OpenError::LayoutMismatch(_)), "{r:?}");
    let r = Pool::<u32, InOrder16>::open(Region::new(&mut b), |_| Ok(1))
        .err()
        .unwrap();
    assert!(matches!(r.error, OpenError::Config(_)), "{r:?}");
}

#[test]
fn a_panic_in_a_body_undoes_it() {
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.tx(|tx, r| -> Result<(), Error> {
            r.get_mut(tx)?.n = 4;
            panic!("in the body")
        })
    }));
    assert!(r.is_err());
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)), Ok(7));
}

fn two_contexts<M: Model>()
where
    M::Unit: Width,
{
    let mut b = buffer(512);
    type R = Contexts<(u32, [u16; 2])>;
    let mut pool = Pool::<R, M>::open(Region::new(&mut b), |_| Ok((1, [2, 3]))).unwrap();
    {
        let (mut a, mut b) = pool.contexts();
        a.tx(|tx, r| {
            *r.get_mut(tx)? += 1;
            // The other context runs while this transaction is open, as threads do.
            b.tx(|ty, s| {
                s.get_mut(ty)?[0] = 9;
                Ok(())
            })?;
            Ok(())
        })
        .unwrap();
    }
    let mut pool = Pool::<R, M>::open(pool.close(), |_| Err(Error::Aborted(0))).unwrap();
    let (mut a, mut b) = pool.contexts();
    assert_eq!(a.tx(|tx, r| Ok(*r.get(tx))), Ok(2));
    assert_eq!(b.tx(|tx, r| Ok(*r.get(tx))), Ok([9, 3]));
}
#[test]
fn contexts_have_roots_of_their_own() {
    two_contexts::<InOrder32>();
    two_contexts::<InOrder16>();
}

#[test]
fn a_pool_changes_its_types() {
    #[derive(Persist)]
    #[repr(C)]
    struct New<'p> {
        n: u64,
        list: Option<PBox<'p, Node<'p>>>,
    }
    let mut b = buffer(256);
    let mut pool = open(Region::new(&mut b));
    push(&mut pool, 5).unwrap();
    let change = |region| {
        Pool::<New<'static>>::migrate::<T, _, _>(
            region,
            &Config::DEFAULT,
            |_| Err(Error::Aborted(0)),
            |_, old| {
                Ok(New {
                    list: old.list,
                    n: old.n as u64,
                })
            },
        )
        .unwrap()
    };
    let pool = change(pool.close());
    let mut pool = change(pool.close());
    let r = pool.tx(|tx, r| {
        let r = r.get(tx);
        Ok((r.n, r.list.as_ref().unwrap().get(tx).v))
    });
    assert_eq!(r, Ok((8, 5)));
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

/// The offset of the only unit that holds `v`.
fn find(words: &[MaybeUninit<u64>], v: u32) -> usize {
    let mut at = Vec::new();
    for (i, w) in words.iter().enumerate() {
        // SAFETY: the pool is closed and its types have no padding, so every byte is initialised.
        let w = unsafe { w.assume_init() };
        for half in 0..2 {
            if (w >> (half * 32)) as u32 == v {
                at.push(i * 8 + half * 4);
            }
        }
    }
    assert_eq!(at.len(), 1, "{v:#x} at {at:x?}");
    at[0]
}
fn patch(words: &mut [MaybeUninit<u64>], at: usize, v: u32) {
    // SAFETY: as in `find`.
    let w = unsafe { words[at / 8].assume_init() };
    let shift = at % 8 * 8;
    words[at / 8].write(w & !(0xffff_ffff << shift) | (v as u64) << shift);
}

#[test]
fn an_image_with_two_owners_or_none_does_not_open() {
    #[derive(Persist)]
    #[repr(C)]
    struct Pair<'p> {
        mark: u32,
        a: Option<PBox<'p, u32>>,
        b: Option<PBox<'p, u32>>,
    }
    let init = || {
        let mut buf = buffer(128);
        Pool::<Pair<'static>>::open(Region::<InOrder32>::new(&mut buf), |tx| {
            Ok(Pair {
                mark: 0xabcd_ef01,
                a: Some(PBox::new(tx, 1)?),
                b: Some(PBox::new(tx, 2)?),
            })
        })
        .unwrap();
        buf
    };
    let open = |buf: &mut Vec<MaybeUninit<u64>>| {
        Pool::<Pair<'static>>::open(Region::<InOrder32>::new(buf), |_| Err(Error::Aborted(0)))
            .map(drop)
            .map_err(|r| r.error)
    };
    assert_eq!(open(&mut init()), Ok(()));
    let mut buf = init();
    let root = find(&buf, 0xabcd_ef01);
    let word = |b: &[MaybeUninit<u64>], at: usize| {
        // SAFETY: as in `find`.
        let w = unsafe { b[at / 8].assume_init() };
        (w >> (at % 8 * 8)) as u32
    };
    let a = word(&buf, root + 4);
    patch(&mut buf, root + 8, a);
    assert!(matches!(open(&mut buf), Err(OpenError::Invalid(_))));
    for bad in [4, a + 4, a + 8 * 1000, u32::MAX, root as u32] {
        let mut buf = init();
        patch(&mut buf, root + 8, bad);
        assert!(
            matches!(open(&mut buf), Err(OpenError::Invalid(_))),
            "{bad:#x}"
        );
    }
    // Free space behind the last block, with the header of an object, and marks as a walk leaves
    // them that found it in use.
    let (mut forged, mut at) = (0, root + 24);
    while at < buf.len() * 8 - 8 {
        let mut buf = init();
        let first = a as usize - 4;
        for scratch in (first + 4 - 64..first - 4).step_by(4) {
            patch(&mut buf, scratch, 0x1111_1111);
        }
        let header = word(&buf, first);
        patch(&mut buf, at - 4, header);
        patch(&mut buf, root + 8, at as u32);
        assert!(
            matches!(open(&mut buf), Err(OpenError::Invalid(_))),
            "{at:#x}"
        );
        forged += 1;
        at += 8;
    }
    assert!(forged > 10);
}

#[test]
fn an_image_is_shown() {
    let mut buf = buffer(128);
    let mut pool = open(Region::new(&mut buf));
    push(&mut pool, 5).unwrap();
    pool.close();
    // SAFETY: the pool's types have no padding, so all is initialised.
    let bytes: Vec<u8> = buf
        .iter()
        .flat_map(|w| unsafe { w.assume_init() }.to_ne_bytes())
        .collect();
    let head = bytes
        .first_chunk::<{ nvmem::Superblock::COPY_BYTES }>()
        .unwrap();
    let second = bytes[nvmem::Superblock::COPY_BYTES..]
        .first_chunk()
        .unwrap();
    let newest = nvmem::Superblock::decode(second)
        .or(nvmem::Superblock::decode(head))
        .unwrap();
    assert!(pmem_tx::inspect::is_pool(&newest.superblock));
    let show = |bytes: &[u8]| {
        let mut out = String::new();
        pmem_tx::inspect::pool(&newest.superblock, bytes, &mut out).unwrap();
        out
    };
    let said = show(&bytes);
    assert!(
        said.contains("2 objects, 0 cells") && !said.contains("DAMAGED"),
        "{said}"
    );
    for n in [0, 100, 500, 1000] {
        show(&bytes[..n]);
    }
    let mut bad = bytes.clone();
    for i in (0..bad.len()).step_by(if cfg!(miri) { 211 } else { 1 }) {
        bad[i] ^= 0x55;
        show(&bad);
    }
    let bad: Vec<u8> = bytes.iter().map(|b| b ^ 0x55).collect();
    assert!(show(&bad).contains("DAMAGED"));
}

#[test]
fn a_reset_never_formats_again() {
    let mut buf = buffer(256);
    let mut pool = open(Region::new(&mut buf));
    push(&mut pool, 5).unwrap();
    let again = |region| Pool::<T>::open(region, |_| panic!("a used region was formatted"));
    let pool = again(pool.close()).unwrap();
    // Another configuration is ignored: it counts only when a region is formatted.
    let pool = Pool::<T>::open_with(pool.close(), &Config::SMALL, |_| {
        panic!("a used region was formatted")
    });
    assert_eq!(sum(&mut again(pool.unwrap().close()).unwrap()), 5);
}

/// With an observer loans end in other code. Without it, as on a device, frees must take effect
/// too.
#[test]
fn what_was_freed_is_free_after_the_commit() {
    struct Silent;
    impl nvmem::instrument::Observer for Silent {
        fn store(&self, _: *mut u8, _: &[u8]) {}
    }
    fn free_one() {
        let mut b = buffer(256);
        let mut pool = open(Region::new(&mut b));
        push(&mut pool, 1).unwrap();
        push(&mut pool, 2).unwrap();
        let before = pool.audit().unwrap();
        pool.tx(|tx, root| {
            let r = root.get_mut(tx)?;
            r.list = r.list.take().ok_or(tx.abort(0))?.into_inner(tx)?.next;
            Ok(())
        })
        .unwrap();
        let after = pool.audit().unwrap();
        assert_eq!((after.blocks, after.unreachable), (before.blocks - 1, 0));
        assert_eq!(after.used + after.free, before.used + before.free);
        assert!(after.free > before.free);
    }
    free_one();
    nvmem::instrument::observe(&Silent, free_one);
}

/// The journals that `open` chooses grow with the region, so the length in the error must be enough
/// for the longer ones.
#[test]
fn several_contexts_fit_into_what_they_say() {
    type Eight = pmem_tx::Contexts<(u32, u32, u32, u32, u32, u32, u32, u32)>;
    let open = |words: &mut [MaybeUninit<u64>]| {
        let r = Pool::<Eight>::open(Region::<InOrder32>::new(words), |_| {
            Ok((1, 2, 3, 4, 5, 6, 7, 8))
        });
        r.map(drop).map_err(|r| r.error)
    };
    for words in [20, 100, 250, 1000] {
        let Err(OpenError::TooSmall { needed }) = open(&mut buffer(words)) else {
            panic!("{words} words");
        };
        assert_eq!(
            open(&mut buffer(needed / 8)),
            Ok(()),
            "{words} words, {needed} bytes"
        );
    }
}

/// Every object is checked and none leaks, also where one object owns more than the walk lists, and
/// those own lists that lie before them and behind them.
#[test]
fn more_objects_than_the_walk_lists() {
    const MANY: usize = 40;
    const INVALID: u32 = u32::MAX;

    /// A `char`, and the next one.
    #[derive(Persist)]
    #[repr(C)]
    struct Letter<'p> {
        letter: char,
        next: Option<PBox<'p, Letter<'p>>>,
    }
    #[derive(Persist)]
    #[repr(C)]
    struct Letters<'p> {
        all: [Option<PBox<'p, Letter<'p>>>; MANY],
    }

    let letter = |n: usize| char::from_u32(0x3_0000 + n as u32).unwrap();
    let mut buf = buffer(512);
    let mut pool = Pool::<Letters<'static>>::open(Region::new(&mut buf), |tx| {
        let mut all = [const { None }; MANY];
        // Each lies before the one in front of it.
        for (n, first) in all.iter_mut().enumerate().rev() {
            *first = Some(PBox::new(
                tx,
                Letter {
                    letter: letter(n),
                    next: None,
                },
            )?);
        }
        Ok(Letters { all })
    })
    .unwrap();
    for n in (0..MANY).map(|i| 7 * i % MANY) {
        // Another one in front of each list, in any order; every fourth list is lost.
        pool.tx(|tx, root| {
            let list = &mut root.get_mut(tx)?.all[n];
            let next = list.take();
            let letter = letter(MANY + n);
            let new = PBox::new(tx, Letter { letter, next })?;
            if n % 4 != 0 {
                *list = Some(new);
            }
            Ok(())
        })
        .unwrap();
    }
    let _ = pool.close();

    let kept = 1 + MANY / 4 * 3 * 2;
    let open = |buf: &mut Vec<MaybeUninit<u64>>| {
        Pool::<Letters<'static>>::open(Region::new(buf), |_| Err(Error::Aborted(0)))
            .map_err(|r| r.error)
            .map(|mut pool| pool.audit().unwrap())
    };
    let audit = open(&mut buf.clone()).unwrap();
    assert_eq!((audit.blocks, audit.unreachable), (kept, 0));
    for n in 0..2 * MANY {
        let mut damaged = buf.clone();
        let at = find(&damaged, letter(n) as u32);
        patch(&mut damaged, at, INVALID);
        let lost = (n % MANY).is_multiple_of(4);
        let found = open(&mut damaged).map(|a| a.blocks);
        if lost {
            assert_eq!(found, Ok(kept), "a lost letter, {n}");
        } else {
            let invalid = matches!(found, Err(OpenError::Invalid(nvmem::Invalid::Bits("char"))));
            assert!(invalid, "letter {n}: {found:?}");
        }
    }
}
