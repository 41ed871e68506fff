// Bodies that unwind or never end, and outer tokens inside nested transactions.

#[test]
fn a_panic_in_a_nested_body_leaves_the_outer_one_whole() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    pool.tx(|tx, root| {
        root.get_mut(tx)?.n = 1;
        let mut own = PBox::new(tx, Node { v: 1, next: None })?;
        let lent = own.get_mut(tx)?;
        lent.v = 2;
        let r = caught(|| {
            tx.nested(root, |tx, root| -> Result<(), Error> {
                let r = root.get_mut(tx)?;
                r.n = 2;
                r.a = Some(PBox::new(tx, Node { v: 9, next: None })?);
                // Through a reference that the outer body has lent: it belongs to the outer
                // transaction.
                lent.v = 3;
                let r = caught(|| {
                    tx.nested(root, |tx, root| -> Result<(), Error> {
                        root.get_mut(tx)?.n = 3;
                        quiet()
                    })
                });
                assert!(r.is_none());
                assert_eq!(root.get(tx).n, 2);
                quiet()
            })
        });
        assert!(r.is_none());
        lent.v += 1;
        let top = root.get_mut(tx)?;
        assert_eq!((top.n, top.a.is_none()), (1, true));
        top.n += 4;
        // The outer token works again, and what it logs now is undone with it.
        assert_eq!(tx.nested(root, |tx, r| Ok(r.get(tx).n)), Ok(5));
        root.get_mut(tx)?.b = Some(own);
        Ok(())
    })
    .unwrap();
    let r = pool.tx(|tx, r| {
        let r = r.get(tx);
        Ok((r.n, r.a.is_none(), r.b.as_ref().unwrap().get(tx).v))
    });
    assert_eq!(r, Ok((5, true, 4)));
    assert_eq!(pool.audit().unwrap().unreachable, 0);
    let mut pool = open(pool.close());
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)), Ok(5));
}

#[test]
fn an_outer_handle_and_token_inside_a_nested_body() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let r = pool.tx(|tx, root| {
        let mut own = PBox::new(tx, Node { v: 1, next: None })?;
        let cell = Ptr::new(tx, [true; 3])?;
        tx.nested(root, |ty, root| {
            root.get_mut(ty)?.n = 5;
            // Reading is harmless. Access that would be logged is refused, because the entry would
            // belong to the wrong transaction.
            assert_eq!(own.get(tx).v, 1);
            assert_eq!(own.get_mut(tx).map(|_| ()), Err(Error::OuterTransaction));
            let slot = own.fields(tx).v.set(3);
            assert_eq!(slot, Err(Error::OuterTransaction));
            Ok(())
        })?;
        assert_eq!(own.into_inner(tx)?.v, 1);
        assert_eq!(cell.into_inner(tx)?, [true; 3]);
        Ok(())
    });
    assert_eq!(r, Ok(()));
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)), Ok(5));
}

/// A handle that is consumed through an outer token has no owner any more. So the token's
/// transaction can only abort: not just the nested one, whose failure ends with it, and none
/// outside of the token's own.
#[test]
fn consumed_through_an_outer_token() {
    type Tx<'p> = pmem_tx::Tx<'p, M>;
    type Consume = for<'p> fn(&Tx<'p>, Box<'p, Node<'p>>, Ptr<'p, [bool; 3], W>) -> bool;
    let ways: [Consume; 6] = [
        |tx, own, _| own.into_inner(tx).is_err(),
        |tx, own, _| {
            PBox::new(tx, Node {
                    v: 0,
                    next: Some(own),
                })
            .is_err()
        },
        |tx, own, _| Ptr::<_, W>::new(tx, Some(own)).is_err(),
        |tx, _, cell| cell.into_inner(tx).is_err(),
        |tx, _, mut cell| cell.write(tx, [false; 3]).is_err(),
        |tx, _, mut cell| cell.replace(tx, [false; 3]).is_err(),
    ];
    for (i, consume) in ways.into_iter().enumerate() {
        let mut m = buffer(256);
        let mut pool = open(Region::new(&mut m));
        let (own, before) = (node(&mut pool, 1), pool.audit().unwrap());
        let r = pool.tx_with(own, |tx, root, own| {
            let cell = Ptr::new(tx, [true; 3])?;
            root.get_mut(tx)?.n = 9;
            let r = tx.nested(root, |_, _| {
                assert!(consume(tx, own, cell), "{i}");
                Ok(())
            });
            assert_eq!(r, Err(Error::OuterTransaction), "{i}");
            // Later operations are in vain and return the error.
            assert_eq!(
                tx.nested(root, |_, _| Ok(())),
                Err(Error::OuterTransaction),
                "{i}"
            );
            root.get_mut(tx)?.n = 10;
            Ok(())
        });
        let f = r.unwrap_err();
        assert_eq!(f.error, Error::OuterTransaction, "{i}");
        // Everything is undone, and the argument is whole.
        assert_eq!(pool.audit().unwrap(), before, "{i}");
        assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)), Ok(7), "{i}");
        assert_eq!(
            pool.tx_with(f.args, |tx, _, own| Ok(own.into_inner(tx)?.v))
                .unwrap(),
            1
        );
        // A token in the middle ends its own transaction, and not the one around it.
        let r = pool.tx(|tx, root| {
            let r = tx.nested(root, |ty, root| {
                let own = PBox::new(ty, Node { v: 1, next: None })?;
                let cell = Ptr::new(ty, [true; 3])?;
                ty.nested(root, |_, _| {
                    consume(ty, own, cell);
                    Ok(())
                })
                .unwrap_err();
                Ok(())
            });
            assert_eq!(r, Err(Error::OuterTransaction), "{i}");
            root.get_mut(tx)?.n = 8;
            Ok(())
        });
        assert_eq!(r, Ok(()), "{i}");
        assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)), Ok(8), "{i}");
        assert_eq!(pool.audit().unwrap().unreachable, 0, "{i}");
    }
}

#[test]
fn a_panic_keeps_objects_of_lost_arguments_until_the_next_open() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let h = node(&mut pool, 3);
    let r = caught(|| {
        pool.tx_with(h, |tx, r, h| -> Result<(), Error> {
            r.get_mut(tx)?.a = Some(h);
            panic_any(3u8)
        })
    });
    assert!(r.is_none());
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).a.is_none())), Ok(true));
    assert_eq!(pool.audit().unwrap().unreachable, 1);
    let mut pool = open(pool.close());
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

#[test]
fn a_stack_that_was_given_up_is_undone() {
    if cfg!(miri) {
        return;
    } // a thread that never ends
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    struct Shared(*mut ());
    // SAFETY: one thread at a time uses the pool.
    unsafe impl Send for Shared {}
    let p = Shared((&raw mut pool).cast());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let p = p;
        // SAFETY: as with a forgotten coroutine, this thread never touches the pool again.
        let pool = unsafe { &mut *p.0.cast::<P<'_>>() };
        let _ = pool.tx(|tx, r| {
            r.get_mut(tx)?.n = 99;
            r.get_mut(tx)?.a = Some(PBox::new(tx, Node { v: 1, next: None })?);
            tx.nested(r, |tx, r| -> Result<(), Error> {
                r.get_mut(tx)?.n = 100;
                tell.send(()).unwrap();
                loop {
                    std::thread::park()
                }
            })
        });
    });
    told.recv().unwrap();
    assert_eq!(
        pool.tx(|tx, r| {
            r.get_mut(tx)?.n += 1;
            Ok((r.get(tx).n, r.get(tx).a.is_none()))
        }),
        Ok((8, true))
    );
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}
