// References: neighbours, children, padding.

#[test]
fn neighbours_in_one_unit_may_be_borrowed_at_once() {
    #[derive(Persist, Debug, Clone, Copy, PartialEq)]
    #[repr(C)]
    struct Packed {
        a: u8,
        b: [u8; 6],
        c: u8,
        d: [u8; 9],
        e: u8,
    }
    const OLD: Packed = Packed {
        a: 1,
        b: [2; 6],
        c: 3,
        d: [4; 9],
        e: 5,
    };
    let mut m = buffer(128);
    let mut pool = Pool::<Packed, M>::open(Region::new(&mut m), |_| Ok(OLD)).unwrap();
    for order in 0..3 {
        for commit in [false, true] {
            let r = pool.tx(|tx, root| {
                let s = root.fields(tx);
                let read = s.e.get();
                let (a, b, c, d);
                match order {
                    0 => {
                        a = s.a.into_mut()?;
                        *a = 11;
                        b = s.b.into_mut()?;
                        b[5] = 12;
                        c = s.c.into_mut()?;
                        d = s.d.into_mut()?
                    }
                    1 => {
                        d = s.d.into_mut()?;
                        d[0] = 9;
                        c = s.c.into_mut()?;
                        *c = 2;
                        b = s.b.into_mut()?;
                        a = s.a.into_mut()?
                    }
                    _ => {
                        c = s.c.into_mut()?;
                        *c = 2;
                        a = s.a.into_mut()?;
                        *a = 3;
                        d = s.d.into_mut()?;
                        b = s.b.into_mut()?
                    }
                }
                *a = 21;
                *c = 23;
                b[0] = 22;
                d[0] = 24;
                b[5] = 22;
                *c += 1;
                assert_eq!(*read, 5);
                if commit { Ok(()) } else { Err(tx.abort(0)) }
            });
            assert_eq!(r.is_ok(), commit);
            let now = pool.tx(|tx, r| Ok(*r.get(tx))).unwrap();
            if !commit {
                assert_eq!(now, OLD);
                continue;
            }
            assert_eq!(
                (
                    now.a, now.b[0], now.b[1], now.b[5], now.c, now.d[0], now.d[1]
                ),
                (21, 22, 2, 22, 24, 24, 4)
            );
            pool.tx(|tx, r| {
                *r.get_mut(tx)? = OLD;
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn a_large_object_is_logged_once() {
    let mut m = buffer(512);
    let c = Config {
        journal_entries: 8,
        journal_bytes: 1300,
        ..Config::DEFAULT
    };
    let mut pool =
        Pool::<[u8; 1200], M>::open_with(Region::new(&mut m), &c, |_| Ok([1; 1200])).unwrap();
    let r = pool.tx(|tx, root| {
        for i in 0..4 {
            root.get_mut(tx)?[i * 399] = 9;
        }
        Err::<(), _>(tx.abort(0))
    });
    assert_eq!(r, Err(Error::Aborted(0)));
    assert_eq!(pool.tx(|tx, r| Ok(*r.get(tx))), Ok([1; 1200]));
}

#[test]
fn nested_children_swap_free_and_abort() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let (a, b) = (node(&mut pool, 1), node(&mut pool, 2));
    pool.tx_with((a, b), |tx, root, (a, b)| {
        let r = root.get_mut(tx)?;
        (r.a, r.b) = (Some(a), Some(b));
        Ok(())
    })
    .unwrap();
    let before = pool.audit().unwrap();
    let sum = |pool: &mut P<'_>| {
        pool.tx(|tx, r| {
            let r = r.get(tx);
            Ok((
                r.a.as_ref().unwrap().get(tx).v,
                r.b.as_ref().unwrap().get(tx).v,
            ))
        })
        .unwrap()
    };
    pool.tx(|tx, root| {
        for _ in 0..3 {
            let r = tx.nested(root, |tx, root| {
                let r = root.get_mut(tx)?;
                core::mem::swap(&mut r.a, &mut r.b);
                r.a.as_mut().unwrap().get_mut(tx)?.v = 50;
                let gone = r.b.take().unwrap().into_inner(tx)?;
                r.b = Some(PBox::new(tx, Node {
                        v: gone.v + 1,
                        next: r.a.take(),
                    })?);
                Err::<(), _>(tx.abort(1))
            });
            assert_eq!(r, Err(Error::Aborted(1)));
        }
        let Top { a, b, .. } = root.get_mut(tx)?;
        let (x, y) = (a.as_mut().unwrap(), b.as_mut().unwrap());
        // Two children at once.
        core::mem::swap(x.get_mut(tx)?, y.get_mut(tx)?);
        Ok(())
    })
    .unwrap();
    assert_eq!(sum(&mut pool), (2, 1));
    let after = pool.audit().unwrap();
    assert_eq!(
        (before.blocks, before.used, after.unreachable),
        (after.blocks, after.used, 0)
    );
}

#[test]
fn recursion_and_objects_without_bytes() {
    let mut m = buffer(512);
    let mut pool = open(Region::new(&mut m));
    fn deep<'p>(n: &mut Box<'p, Node<'p>>, tx: &pmem_tx::Tx<'p, M>) -> Result<u32, Error> {
        let n = n.get_mut(tx)?;
        n.v += 1;
        let below = match &mut n.next {
            Some(x) => deep(x, tx)?,
            None => 0,
        };
        n.v += 1;
        Ok(below + n.v)
    }
    let r = pool.tx(|tx, root| {
        let mut list = None;
        for v in 0..8 {
            list = Some(PBox::new(tx, Node { v, next: list })?);
        }
        let mut list = list.ok_or(tx.abort(0))?;
        let r = deep(&mut list, tx)?;
        root.get_mut(tx)?.a = Some(list);
        let (mut x, mut y) = (PBox::new(tx, ())?, PBox::new(tx, [0u64; 0])?);
        let (p, q) = (x.get_mut(tx)?, y.get_mut(tx)?);
        (*p, *q) = ((), []);
        assert!(y.at_mut(tx, 0).is_err());
        x.free(tx)?;
        y.free(tx)?;
        Ok(r)
    });
    assert_eq!(r, Ok(28 + 16));
}

#[test]
fn padding_is_copied_and_never_read() {
    #[derive(Persist, Debug, Clone, Copy, PartialEq)]
    #[repr(C, u8)]
    enum E {
        A,
        B(u8, u32),
        C(u64),
    }
    #[derive(Persist, Debug, Clone, Copy, PartialEq)]
    #[repr(C)]
    struct Padded {
        a: u8,
        b: u32,
        c: bool,
        m: Maybe<u16>,
        e: E,
        d: u8,
    }
    let v = |a| Padded {
        a,
        b: 2,
        c: true,
        m: Maybe::Some(3),
        e: E::B(4, 5),
        d: 6,
    };
    let w = Padded {
        m: Maybe::None,
        e: E::A,
        ..v(9)
    };
    #[derive(Persist)]
    #[repr(C)]
    struct R<'p> {
        here: Padded,
        cell: Option<Ptr<'p, Padded, W>>,
        boxed: Option<Box<'p, Padded>>,
    }
    let mut m = buffer(256);
    let open = |region| {
        Pool::<R<'static>, M>::open(region, |tx| {
            Ok(R {
                here: v(1),
                cell: Some(Ptr::new(tx, v(1))?),
                boxed: None,
            })
        })
        .unwrap()
    };
    let read = |pool: &mut Pool<'_, R<'static>, M>| {
        pool.tx(|tx, r| {
            let r = r.get(tx);
            Ok((
                r.here,
                r.cell.as_ref().unwrap().read(tx),
                r.boxed.as_ref().map(|b| *b.get(tx)),
            ))
        })
        .unwrap()
    };
    let mut pool = open(Region::new(&mut m));
    let write = |pool: &mut Pool<'_, R<'static>, M>, x: Padded, ok: bool| {
        pool.tx(|tx, r| {
            r.get_mut(tx)?.here = x;
            let R { cell, boxed, .. } = r.get_mut(tx)?;
            cell.as_mut().unwrap().write(tx, x)?;
            match boxed {
                Some(b) => {
                    *b.get_mut(tx)? = x;
                    b.fields(tx).e.set(x.e)?
                }
                None => *boxed = Some(PBox::new(tx, x)?),
            }
            tx.nested(r, |tx, r| {
                *r.get_mut(tx)?.boxed.as_mut().unwrap().get_mut(tx)? = v(77);
                Err::<(), _>(tx.abort(0))
            })
            .unwrap_err();
            if ok { Ok(()) } else { Err(tx.abort(0)) }
        })
    };
    write(&mut pool, w, false).unwrap_err();
    assert_eq!(read(&mut pool), (v(1), v(1), None));
    write(&mut pool, w, true).unwrap();
    write(&mut pool, Padded { e: E::C(7), ..v(3) }, false).unwrap_err();
    let mut pool = open(pool.close());
    assert_eq!(read(&mut pool), (w, w, Some(w)));
    write(&mut pool, v(3), true).unwrap();
    let h: H<Padded> = pool
        .tx_own((), |tx, r, ()| {
            r.get_mut(tx)?.boxed.take().ok_or(tx.abort(0))
        })
        .unwrap();
    assert_eq!(
        pool.tx_with((h, v(5)), |tx, _, (h, a)| Ok((h.into_inner(tx)?, a)))
            .unwrap(),
        (v(3), v(5))
    );
    let mut pool = open(pool.close());
    assert_eq!(read(&mut pool), (v(3), v(3), None));
}

/// Padding is uninitialised: a region that a pool returns is not read as bytes, as a whole or in
/// part, nor opened from the middle.
#[test]
fn a_closed_region_is_not_read_as_bytes() {
    use nvmem::device::{Medium, Misuse};
    type Padded = (u8, u32);
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    struct Pair {
        a: u8,
        b: u32,
    }
    let pair = |(a, b): Padded| Pair { a, b };
    let mut m = buffer(128);
    let fresh = |region| Pool::<Pair, M>::open(region, |_| Ok(pair((1, 2))));
    let mut pool = fresh(Region::new(&mut m)).unwrap();
    pool.tx(|tx, r| {
        *r.get_mut(tx)? = pair((3, 4));
        Ok(())
    })
    .unwrap();
    let mut byte = [0];
    let refuses = |region: &mut Region<'_, M>, byte: &mut [u8]| {
        for at in 0..region.len() as u32 {
            assert_eq!(region.read(at, byte), Err(Misuse::HoldsValues));
            assert_eq!(region.write(at, &[9]), Err(Misuse::HoldsValues));
        }
        assert_eq!(
            region.read(region.len() as u32, byte),
            Err(Misuse::OutOfRange)
        );
    };
    let mut region = pool.close();
    assert_eq!(region.len(), 1024);
    refuses(&mut region, &mut byte);
    let Err((nvmem::RegionError::HoldsValues, region)) = region.split_at(512) else {
        panic!("it was split");
    };
    // It is a pool as before, and says the same when it is refused.
    let mut pool = fresh(region).unwrap();
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).b)), Ok(4));
    let other = Pool::<u32, M>::open(pool.close(), |_| Ok(1));
    let Err(mut refused) = other else {
        panic!("other types");
    };
    refuses(&mut refused.region, &mut byte);
    // Cleared, it is a medium like any other, and blank.
    let mut region = refused.region;
    region.clear();
    for at in 0..region.len() as u32 {
        region.read(at, &mut byte).unwrap();
        assert_eq!(byte, [0]);
    }
    let r = Pool::<PBoxed<'static>, M>::open(region, |tx| {
        let mut b = PBox::new(tx, pair((1, 2)))?;
        *b.get_mut(tx)? = pair((5, 6));
        Err(tx.abort(1))
    });
    let Err(mut refused) = r else {
        panic!("no first content");
    };
    refuses(&mut refused.region, &mut byte);
    #[derive(Persist)]
    #[repr(C)]
    struct PBoxed<'p> {
        pair: Box<'p, Pair>,
    }
}
