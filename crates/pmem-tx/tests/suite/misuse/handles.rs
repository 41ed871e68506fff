// Handles outside of transactions.

#[test]
fn swapped_with_a_held_handle_and_aborted() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let (h, b) = (node(&mut pool, 3), node(&mut pool, 70));
    pool.tx_with(b, |tx, r, b| {
        r.get_mut(tx)?.b = Some(b);
        Ok(())
    })
    .unwrap();
    let f = pool
        .tx_with(h, |tx, r, mut h| {
            core::mem::swap(&mut h, r.get_mut(tx)?.b.as_mut().unwrap());
            h.get_mut(tx)?.v = 1;
            h.free_tree(tx)?;
            Err::<(), _>(tx.abort(0))
        })
        .unwrap_err();
    let r = pool.tx_with(f.args, |tx, r, mut h| {
        let (x, y) = (
            h.get_mut(tx)?,
            r.get_mut(tx)?.b.as_mut().unwrap().get_mut(tx)?,
        );
        x.v += 1;
        y.v += 1;
        x.v += 1;
        let out = (x.v, y.v);
        r.get_mut(tx)?.a = Some(h);
        Ok(out)
    });
    assert_eq!(r.unwrap(), (5, 71));
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

#[test]
fn handles_do_not_survive_their_session() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let mut h = node(&mut pool, 3);
    // Closed and opened again; forgotten and opened again from the buffer.
    let mut pool = open(pool.close());
    assert_eq!(
        pool.tx_with(h.lend(), |tx, _, h| Ok(h.get(tx).v))
            .unwrap_err()
            .error,
        Error::WrongPool
    );
    // Nothing runs when a pool is dropped, or is forgotten.
    let _ = core::mem::ManuallyDrop::new(pool);
    let mut pool = open(Region::new(&mut m));
    let mut f = pool
        .tx_with((1u32, h), |tx, _, (_, h)| Ok(h.get(tx).v))
        .unwrap_err();
    assert_eq!(f.error, Error::WrongPool);
    assert_eq!(
        pool.tx_with(f.args.1.lend(), |_, _, _| Ok(()))
            .unwrap_err()
            .error,
        Error::WrongPool
    );
    // Another object now lies at its offset; the handle must not reach it.
    let k = node(&mut pool, 8);
    assert_eq!(k.offset(), f.args.1.offset());
    assert_eq!(
        pool.tx_own::<_, H<N>, _>(f.args.1, |_, _, h| Ok(h))
            .unwrap_err()
            .error,
        Error::WrongPool
    );
}

#[test]
fn two_contexts_lend_and_hand_over() {
    type R = Contexts<(Top<'static>, Option<Box<'static, Node<'static>>>)>;
    let mut m = buffer(512);
    let fresh = |region| {
        Pool::<R, M>::open(region, |_| {
            Ok((
                Top {
                    n: 0,
                    a: None,
                    b: None,
                    cell: None,
                },
                None,
            ))
        })
        .unwrap()
    };
    let mut pool = fresh(Region::new(&mut m));
    {
        let (mut a, mut b) = pool.contexts();
        let mut h: H<N> = a
            .tx_own((), |tx, _, ()| PBox::new(tx, Node { v: 1, next: None }))
            .unwrap();
        let mut g: H<N> = b
            .tx_own((), |tx, _, ()| PBox::new(tx, Node { v: 10, next: None }))
            .unwrap();
        // Both transactions are open, each with one of the handles; the inner commits, the outer
        // aborts.
        let r = a.tx_with(h.lend(), |tx, _, mut h| {
            let x = h.get_mut(tx)?;
            x.v += 1;
            b.tx_with(g.lend(), |ty, _, mut g| {
                let y = g.get_mut(ty)?;
                core::mem::swap(&mut x.v, &mut y.v);
                Ok(())
            })?;
            x.v += 1;
            Err::<(), _>(tx.abort(0))
        });
        assert_eq!(r.unwrap_err().error, Error::Aborted(0));
        assert_eq!(
            a.tx_with((h.lend(), g.lend()), |tx, _, (h, g)| Ok((
                h.get(tx).v,
                g.get(tx).v
            )))
            .unwrap(),
            (1, 2)
        );
        // From one context to the other, and out of its root again.
        b.tx_with(h, |tx, r, h| {
            *r.get_mut(tx)? = Some(h);
            Ok(())
        })
        .unwrap();
        let h: H<N> = b
            .tx_own((), |tx, r, ()| r.get_mut(tx)?.take().ok_or(tx.abort(1)))
            .unwrap();
        a.tx_with((g, h), |tx, r, (mut g, h)| {
            g.get_mut(tx)?.next = Some(h);
            r.get_mut(tx)?.a = Some(g);
            Ok(())
        })
        .unwrap();
    }
    let mut pool = fresh(pool.close());
    let a = pool.audit().unwrap();
    assert_eq!((a.blocks, a.unreachable), (4, 0));
    let (mut a, _) = pool.contexts();
    let v = a.tx(|tx, r| {
        let g = r.get(tx).a.as_ref().unwrap().get(tx);
        Ok((g.v, g.next.as_ref().unwrap().get(tx).v))
    });
    assert_eq!(v, Ok((2, 1)));
}

#[test]
fn prepared_dropped_abandoned_forgotten() {
    let mut m = buffer(256);
    let word = Cell::new(0);
    let open = |region| {
        Pool::<T, M>::open_resolved(
            region,
            &Config::SMALL,
            |_| word.get(),
            |_| {
                Ok(Top {
                    n: 7,
                    a: None,
                    b: None,
                    cell: None,
                })
            },
        )
        .unwrap()
    };
    let mut pool = open(Region::new(&mut m));
    assert_eq!(pool.tx(|_, _| Ok(())), Err(Error::CallersCommitWord));
    let mut c = pool.context();
    let p = c
        .prepare::<_, H<N>, _>((), |tx, r, ()| {
            r.get_mut(tx)?.n = 1;
            PBox::new(tx, Node { v: 4, next: None })
        })
        .unwrap();
    word.set(p.seq());
    let h = p.committed();
    // Dropped: undone. Abandoned: undone, and the handle is whole.
    drop(
        c.prepare::<_, u32, _>((), |tx, r, ()| {
            r.get_mut(tx)?.n = 2;
            Ok(2)
        })
        .unwrap(),
    );
    let p = c
        .prepare::<_, (), _>(h, |tx, r, h| {
            r.get_mut(tx)?.a = Some(h);
            Ok(())
        })
        .unwrap();
    let h = p.abandon();
    let p = c
        .prepare::<_, (u32, u32), _>(h, |tx, r, h| {
            let v = h.get(tx).v;
            let t = r.get_mut(tx)?;
            t.a = Some(h);
            Ok((t.n, v))
        })
        .unwrap();
    assert_eq!(p.result(), &(1, 4));
    word.set(p.seq());
    core::mem::forget(p);
    assert_eq!(
        c.prepare::<_, (), _>((), |_, _, ()| Ok(()))
            .map(|_| ())
            .unwrap_err()
            .error,
        Error::Unfinished
    );
    // The caller's word was stored: committed.
    let mut pool = open(pool.close());
    let mut c = pool.context();
    let p = c
        .prepare::<_, bool, _>((), |tx, r, ()| Ok(r.get(tx).a.is_some()))
        .unwrap();
    assert_eq!(p.result(), &true);
    // Never stored: undone at the next open.
    core::mem::forget(p);
    let p = c.prepare::<_, (), _>((), |_, _, ()| Ok(()));
    assert!(p.is_err());
    drop(p);
    let mut pool = open(pool.close());
    assert_eq!((pool.reclaim(), pool.audit().unwrap().unreachable), (0, 0));
    let mut own = Pool::<T, M>::open(pool.close(), |_| Err(Error::Aborted(0))).unwrap();
    let mut c = own.context();
    let r = c.prepare::<_, (), _>((), |_, _, ()| Ok(()));
    assert_eq!(r.map(|_| ()).unwrap_err().error, Error::PoolsCommitWord);
}

#[test]
fn only_existing_objects_are_adopted_and_once() {
    let mut m = buffer(256);
    let word = Cell::new(0);
    let open = |region| {
        Pool::<T, M>::open_resolved(
            region,
            &Config::DEFAULT,
            |_| word.get(),
            |_| {
                Ok(Top {
                    n: 7,
                    a: None,
                    b: None,
                    cell: None,
                })
            },
        )
        .unwrap()
    };
    let mut pool = open(Region::new(&mut m));
    type Two = (H<N>, H<u32>);
    let (two, one, lost): (Vec<u8>, Vec<u8>, Vec<u8>);
    {
        let mut c = pool.context();
        let p = c
            .prepare::<_, (Two, H<[bool; 2]>, H<u32>), _>((), |tx, _, ()| {
                let next = Some(PBox::new(tx, Node { v: 6, next: None })?);
                Ok((
                    (PBox::new(tx, Node { v: 5, next })?, PBox::new(tx, 9u32)?),
                    PBox::new(tx, [true, false])?,
                    PBox::new(tx, 1u32)?,
                ))
            })
            .unwrap();
        word.set(p.seq());
        let (a, b, c) = p.committed();
        (two, one, lost) = (bytes(&a), bytes(&b), bytes(&c));
    }
    let mut pool = open(pool.close());
    // Hostile bytes: lengths, places, types. A handle accepted before its neighbour is refused must
    // not be judged later as another type, of another size.
    let refused = |r: Result<(), Error>| assert!(matches!(r, Err(Error::Invalid(_))), "{r:?}");
    refused(pool.adopt::<H<N>>(&[]).map(drop));
    refused(pool.adopt::<Two>(&two[..two.len() - 1]).map(drop));
    refused(pool.adopt::<H<u32>>(&two).map(drop));
    refused(
        pool.adopt::<(H<u32>, H<u32>)>(&[&lost[..], &[0xff; 4][..lost.len()]].concat())
            .map(drop),
    );
    refused(
        pool.adopt::<(H<u32>, H<u32>)>(&[&lost[..], &lost[..]].concat())
            .map(drop),
    );
    refused(pool.adopt::<H<[bool; 2000]>>(&one).map(drop));
    for v in (0..2048u32).step_by(if cfg!(miri) { 101 } else { 1 }) {
        let b = v.to_le_bytes();
        refused(pool.adopt::<H<[bool; 2000]>>(&b[..lost.len()]).map(drop));
        let _ = pool.adopt::<u16>(&b[..2]);
        let _ = pool.adopt::<bool>(&b[..1]);
    }
    refused(pool.adopt::<bool>(&[2]).map(drop));
    let (h, k) = pool.adopt::<Two>(&two).unwrap();
    refused(pool.adopt::<Two>(&two).map(drop));
    let b = pool.adopt::<H<[bool; 2]>>(&one).unwrap();
    refused(pool.adopt::<H<[bool; 2]>>(&one).map(drop));
    assert_eq!(pool.reclaim(), 1);
    assert_eq!(pool.reclaim(), 0);
    assert_eq!(pool.adopt::<H<u32>>(&lost).unwrap_err(), Error::WrongPool);
    let mut c = pool.context();
    let p = c
        .prepare::<_, (), _>(((h, k), b), |tx, r, ((mut h, k), b)| {
            assert_eq!(
                (
                    h.get_mut(tx)?.next.as_mut().unwrap().get_mut(tx)?.v,
                    *k.get(tx),
                    *b.get(tx)
                ),
                (6, 9, [true, false])
            );
            k.free(tx)?;
            b.free(tx)?;
            r.get_mut(tx)?.a = Some(h);
            Ok(())
        })
        .unwrap();
    word.set(p.seq());
    p.committed();
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

/// A handle of a pool with the other width is reported as such, whatever its offset. A handle of
/// this pool that leads to no block owns nothing.
#[test]
fn a_foreign_family_is_named() {
    let mut m = buffer(256);
    let mut pool = Pool::<T, M>::open_resolved(
        Region::new(&mut m),
        &Config::DEFAULT,
        |_| 0,
        |_| {
            Ok(Top {
                n: 7,
                a: None,
                b: None,
                cell: None,
            })
        },
    )
    .unwrap();
    fn kind<F: pmem_tx::Width>(pool: &mut P<'_>, off: u32) -> Invalid {
        let bytes = &off.to_le_bytes()[..size_of::<F>()];
        match pool.adopt::<Held<u32, F>>(bytes) {
            Err(Error::Invalid(why)) => why,
            other => panic!("{other:?}"),
        }
    }
    for off in [0, 1, 8, 1024, 0xfff8] {
        let (narrow, wide) = (kind::<u16>(&mut pool, off), kind::<u32>(&mut pool, off));
        let (own, foreign) = if size_of::<W>() == 2 {
            (narrow, wide)
        } else {
            (wide, narrow)
        };
        assert!(matches!(own, Invalid::Handle(_)), "{own:?}");
        assert!(matches!(foreign, Invalid::Family(_)), "{foreign:?}");
    }
}

/// A session number is taken when the first handle leaves. A pool without a number accepts no
/// handle.
#[test]
fn a_session_begins_with_its_first_handle() {
    let none = u32::MAX;
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    assert_eq!(pool.tx_own::<_, u8, _>((), |_, _, ()| Ok(1)).unwrap(), 1);
    assert_eq!(pool.session(), none);
    let old = node(&mut pool, 1);
    let first = pool.session();
    assert_ne!(first, none);
    let _ = node(&mut pool, 2);
    assert_eq!(pool.session(), first);
    let mut pool = open(pool.close());
    assert_eq!(pool.session(), none);
    let off = old.offset();
    let mut refused = |h: H<N>| {
        let r = pool.tx_with(h, |tx, _, h| h.free_tree(tx));
        assert_eq!(r.unwrap_err().error, Error::WrongPool);
    };
    refused(old);
    // SAFETY: the handles are only refused.
    unsafe {
        refused(Held::restore(off, 0).unwrap());
        refused(Held::restore(off, first).unwrap());
    }
    let _ = node(&mut pool, 3);
    assert!(pool.session() > first && pool.session() < none);
}

/// A walk may reclaim the object of a handle outside, or give it to another one. So it ends the
/// session of all handles outside.
#[test]
fn a_walk_ends_the_session() {
    let refused = |r: Result<(), Error>| assert_eq!(r, Err(Error::WrongPool));
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let (mut h, k) = (node(&mut pool, 3), node(&mut pool, 4));
    let (first, recorded) = (pool.session(), bytes(&k));
    pool.walk().unwrap();
    assert!(pool.session() > first);
    // The object is adopted: the earlier handle is not a second owner, neither by value nor lent.
    let adopted: H<N> = pool.adopt(&recorded).unwrap();
    assert_eq!(pool.reclaim(), 1);
    let r = pool.tx_with((k, adopted), |_, _, _| Ok(()));
    let (k, mut adopted) = r.unwrap_err().args;
    refused(
        pool.tx_with(k, |tx, _, k| k.free_tree(tx))
            .map_err(Error::from),
    );
    // Another object lies at the other handle's offset now.
    let taken: H<[bool; 8]> = loop {
        let new = pool.tx_own::<_, H<[bool; 8]>, _>((), |tx, _, ()| PBox::new(tx, [true; 8]));
        match new.unwrap() {
            new if new.offset() == h.offset() => break new,
            _elsewhere => {}
        }
    };
    let r = pool.tx_with((h.lend(), 1u8), |tx, _, (mut h, _)| {
        h.get_mut(tx)?.v = 2;
        Ok(())
    });
    refused(r.map_err(Error::from));
    let r = pool.tx_with((adopted.lend(), taken), |tx, _, (mut a, taken)| {
        a.get_mut(tx)?.v += 1;
        Ok((a.get(tx).v, taken.into_inner(tx)?))
    });
    assert_eq!(r.unwrap(), (5, [true; 8]));
    // A pool that has given no handle away takes no number.
    let mut pool = open(pool.close());
    pool.walk().unwrap();
    assert_eq!(pool.session(), u32::MAX);
}

/// It is unknown whether the transaction is committed: objects that it unlinked must not be
/// reclaimed, because it may be undone.
#[test]
fn no_walk_beside_a_forgotten_transaction() {
    let mut m = buffer(256);
    let pool = open(Region::new(&mut m));
    let resolved = |region| {
        Pool::<T, M>::open_resolved(region, &Config::DEFAULT, |_| 0, |_| Err(Error::Aborted(0)))
            .unwrap()
    };
    let mut pool = resolved(pool.close());
    let mut c = pool.context();
    let p = c.prepare::<_, (), _>((), |tx, r, ()| {
        r.get_mut(tx)?.a = Some(PBox::new(tx, Node { v: 1, next: None })?);
        Ok(())
    });
    core::mem::forget(p);
    assert_eq!(pool.walk(), Err(pmem_tx::OpenError::Unfinished));
    assert_eq!(pool.reclaim(), 0);
    assert_eq!(
        pool.adopt::<H<N>>(&[8; size_of::<W>()]).unwrap_err(),
        Error::WrongPool
    );
    let mut pool = resolved(pool.close());
    assert_eq!((pool.walk(), pool.reclaim()), (Ok(()), 0));
}

/// A handle that was accepted before its neighbour's turn came is not judged later as another type,
/// of another size.
#[test]
fn a_panic_while_a_result_is_adopted() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    type Two = (H<u32>, H<u32>);
    let r: Result<(H<[bool; 20]>, Two), _> = pool.tx_own((), |tx, _, ()| {
        Ok((
            PBox::new(tx, [true; 20])?,
            (PBox::new(tx, 0x0202_0202u32)?, PBox::new(tx, 7u32)?),
        ))
    });
    let (flags, two) = r.unwrap();
    let (lower, upper, last) = (bytes(&flags), bytes(&two), two.1.offset());
    pool.walk().unwrap();
    let r = caught(|| {
        pool.adopt_unspent::<Two>(&upper, &mut |off| {
            if off == last {
                quiet()
            }
            false
        })
        .map(drop)
    });
    assert!(r.is_none());
    let flags: H<[bool; 20]> = pool.adopt(&lower).unwrap();
    let two: Two = pool.adopt(&upper).unwrap();
    let r = pool.tx_with((flags, two), |tx, _, (f, (a, b))| {
        Ok((f.into_inner(tx)?, a.into_inner(tx)?, b.into_inner(tx)?))
    });
    assert_eq!(r.unwrap(), ([true; 20], 0x0202_0202, 7));
}

/// What failed adoptions have claimed has no owner: it is reclaimed.
#[test]
fn failed_adoptions_keep_nothing() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    type Two = (H<u32>, H<u32>);
    let two: Two = pool
        .tx_own((), |tx, _, ()| Ok((PBox::new(tx, 1)?, PBox::new(tx, 2)?)))
        .unwrap();
    let first = bytes(&two.0);
    let twice = [&first[..], &first[..]].concat();
    pool.walk().unwrap();
    for _ in 0..2 {
        assert!(matches!(pool.adopt::<Two>(&twice), Err(Error::Invalid(_))));
    }
    assert_eq!((pool.reclaim(), pool.reclaim()), (2, 0));
}
