// Other attempts: re-entry, swapped owners, futures, threads, statics, closures that lie.

/// Runs a transaction on its pool when it is dropped.
struct Meddler<'a, 'm>(&'a mut P<'m>);
impl Drop for Meddler<'_, '_> {
    fn drop(&mut self) {
        let r = self.0.tx(|tx, r| {
            r.get_mut(tx)?.n += 1;
            r.get_mut(tx)?.a = Some(PBox::new(tx, Node { v: 1, next: None })?);
            Ok(())
        });
        assert_eq!(r, Ok(()));
    }
}

#[test]
fn destructors_run_transactions_of_another_pool() {
    let (mut m, mut k) = (buffer(256), buffer(256));
    let (mut pool, mut other) = (open(Region::new(&mut m)), open(Region::new(&mut k)));
    // A captured value, dropped before the commit; a result, dropped with a transaction that can
    // only abort; both unwinding.
    let meddler = Meddler(&mut other);
    pool.tx(move |tx, r| {
        let _meddler = meddler;
        r.get_mut(tx)?.n = 1;
        Ok(())
    })
    .unwrap();
    let r = pool.tx(|tx, r| {
        let own = PBox::new(tx, Node { v: 1, next: None })?;
        let _ = tx.nested(r, |_, _| {
            let _ = own.into_inner(tx);
            Ok(())
        });
        Ok(Meddler(&mut other))
    });
    assert_eq!(r.map(drop), Err(Error::OuterTransaction));
    let meddler = Meddler(&mut other);
    let r = caught(|| {
        pool.tx(|tx, r| -> Result<(), Error> {
            r.get_mut(tx)?.n = 5;
            let _meddler = meddler;
            tx.nested(r, |_, _| -> Result<(), Error> { quiet() })
        })
    });
    assert!(r.is_none());
    let n = |pool: &mut P<'_>| pool.tx(|tx, r| Ok(r.get(tx).n)).unwrap();
    assert_eq!((n(&mut pool), n(&mut other)), (1, 10));
    let pools = [pool, other];
    for pool in pools {
        let mut pool = open(pool.close());
        assert_eq!(pool.audit().unwrap().unreachable, 0);
    }
}

#[test]
fn pools_change_places() {
    let (mut m, mut k) = (buffer(256), buffer(256));
    let mut place = MaybeUninit::uninit();
    let first = |_: &pmem_tx::Tx<'_, M>| Error::Aborted(0);
    let mut pool = open(Region::new(&mut m));
    let _formatted = open(Region::new(&mut k));
    let other = P::open_in(&mut place, Region::new(&mut k), |tx| Err(first(tx)));
    let Ok(other) = other else {
        panic!("it was formatted");
    };
    let (mut h, mut g) = (node(&mut pool, 1), node(other, 2));
    core::mem::swap(&mut pool, other);
    let read = |pool: &mut P<'_>, h: &mut H<N>| {
        let r = pool.tx_with(h.lend(), |tx, _, mut h| {
            h.get_mut(tx)?.v += 10;
            Ok(h.get(tx).v)
        });
        r.map_err(Error::from)
    };
    assert_eq!(read(&mut pool, &mut h), Err(Error::WrongPool));
    assert_eq!(
        (read(&mut pool, &mut g), read(other, &mut h)),
        (Ok(12), Ok(11))
    );
    core::mem::swap(&mut h, &mut g);
    assert_eq!(
        (read(&mut pool, &mut h), read(other, &mut g)),
        (Ok(22), Ok(21))
    );
    assert_eq!(read(other, &mut h), Err(Error::WrongPool));
}

#[test]
fn lent_handles_and_slots_change_places() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let (mut h, mut g) = (node(&mut pool, 1), node(&mut pool, 2));
    let r = pool.tx_with((h.lend(), g.lend()), |tx, root, (mut h, mut g)| {
        core::mem::swap(&mut h, &mut g);
        {
            let (a, b) = (h.get_mut(tx)?, g.get_mut(tx)?);
            core::mem::swap(a, b);
            a.v += 10;
            b.v += 20;
        }
        let mut f = root.fields(tx);
        core::mem::swap(&mut f.a, &mut f.b);
        *f.a.get_mut()? = Some(PBox::new(tx, Node { v: 5, next: None })?);
        let (a, b) = (f.a.follow(), f.b.follow());
        assert!(a.is_some() && b.is_none());
        Ok((h.get(tx).v, g.get(tx).v))
    });
    assert_eq!(r.unwrap(), (11, 22));
    // Each lender still owns its object, and the slot of `a` is that of `b`.
    let r = pool.tx_with((h.lend(), g.lend()), |tx, r, (h, g)| {
        let r = r.get(tx);
        Ok((h.get(tx).v, g.get(tx).v, r.a.is_none(), r.b.is_some()))
    });
    assert_eq!(r.unwrap(), (22, 11, true, true));
}

#[test]
fn a_future_that_is_dropped_in_the_middle() {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let mut once = false;
    let turn = move |_: &mut Context<'_>| match core::mem::replace(&mut once, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    };
    let poll = |f: std::pin::Pin<&mut dyn Future<Output = H<N>>>| {
        f.poll(&mut Context::from_waker(Waker::noop()))
            .map(|h| h.offset())
    };
    for steps in [1, 2] {
        let mut future = std::boxed::Box::pin(async {
            let mut context = pool.context();
            let h: H<N> = context
                .tx_own((), |tx, r, ()| {
                    r.get_mut(tx)?.n += 1;
                    PBox::new(tx, Node { v: 1, next: None })
                })
                .unwrap();
            core::future::poll_fn(turn).await;
            let r = context.tx_own::<_, H<N>, _>(h, |tx, r, mut h| {
                r.get_mut(tx)?.n += 10;
                h.get_mut(tx)?.v = 2;
                Ok(h)
            });
            r.unwrap()
        });
        for _ in 0..steps {
            let _ = poll(future.as_mut());
        }
    }
    assert_eq!(pool.tx(|tx, r| Ok(r.get(tx).n)), Ok(7 + 1 + 11));
    assert_eq!(pool.audit().unwrap().unreachable, 2);
    let mut pool = open(pool.close());
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

#[test]
fn a_pool_and_its_handles_in_statics_and_threads() {
    use std::sync::Mutex;
    static POOL: Mutex<Option<P<'static>>> = Mutex::new(None);
    static HELD: Mutex<Vec<H<N>>> = Mutex::new(Vec::new());
    let memory = buffer(256).leak();
    *POOL.lock().unwrap() = Some(open(Region::new(memory)));
    let threads = [1, 2].map(|v| {
        std::thread::spawn(move || {
            let mut pool = POOL.lock().unwrap();
            let h = node(pool.as_mut().unwrap(), v);
            HELD.lock().unwrap().push(h);
        })
    });
    for t in threads {
        t.join().unwrap();
    }
    let mut pool = POOL.lock().unwrap().take().unwrap();
    let mut sum = 0;
    for h in HELD.lock().unwrap().drain(..) {
        sum += pool.tx_with(h, |tx, _, h| Ok(h.into_inner(tx)?.v)).unwrap();
    }
    assert_eq!((sum, pool.audit().unwrap().unreachable), (3, 0));
    *POOL.lock().unwrap() = Some(pool);
}

/// For any answers of the resolver: the opened content is checked, and earlier handles are refused.
#[test]
fn a_resolver_that_lies() {
    for says in [0, 1, 2, 3, 6, 7, 8, u32::MAX] {
        let mut m = buffer(256);
        let config = Config {
            seq_bits: 3,
            ..Config::SMALL
        };
        let resolved = |region, says| {
            Pool::<T, M>::open_resolved(
                region,
                &config,
                move |_| says,
                |_| {
                    Ok(Top {
                        n: 7,
                        a: None,
                        b: None,
                        cell: None,
                    })
                },
            )
        };
        let Ok(mut pool) = resolved(Region::new(&mut m), 0) else {
            panic!("a blank region");
        };
        let mut kept = vec![];
        {
            let mut c = pool.context();
            for v in 0..3 {
                let p = c.prepare::<_, H<N>, _>((), |tx, r, ()| {
                    let next = r.get_mut(tx)?.a.take();
                    let own = PBox::new(tx, Node { v, next })?;
                    r.get_mut(tx)?.a = Some(own);
                    PBox::new(tx, Node { v, next: None })
                });
                kept.push(p.unwrap().committed());
            }
            let p = c.prepare::<_, (), _>((), |tx, r, ()| {
                let a = r.get_mut(tx)?.a.take().ok_or(tx.abort(0))?;
                r.get_mut(tx)?.a = a.into_inner(tx)?.next;
                Ok(())
            });
            core::mem::forget(p);
        }
        let Ok(mut pool) = resolved(pool.close(), says) else {
            continue;
        };
        pool.reclaim();
        let mut c = pool.context();
        for h in kept {
            let r = c.prepare::<_, u32, _>(h, |tx, _, h| Ok(h.into_inner(tx)?.v));
            assert_eq!(
                r.map(drop).map_err(|f| f.error),
                Err(Error::WrongPool),
                "{says}"
            );
        }
        let r = c.prepare::<_, u32, _>((), |tx, r, ()| {
            let (mut sum, mut at) = (0, &r.get(tx).a);
            while let Some(b) = at {
                sum += b.get(tx).v;
                at = &b.get(tx).next;
            }
            Ok(sum)
        });
        assert!(r.is_ok());
    }
}

/// A handle that was lent to a forgotten transaction, used by another context: a pool that opens is
/// sound.
#[test]
fn lent_to_a_forgotten_transaction() {
    type R = Contexts<(Top<'static>, Top<'static>)>;
    fn top<'p>() -> Top<'p> {
        Top {
            n: 0,
            a: None,
            b: None,
            cell: None,
        }
    }
    fn resolved(region: Region<'_, M>, word: u32) -> Option<Pool<'_, R, M>> {
        Pool::open_resolved(region, &Config::SMALL, |_| word, |_| Ok((top(), top()))).ok()
    }
    let mut m = buffer(512);
    let Some(mut pool) = resolved(Region::new(&mut m), 0) else {
        panic!("a blank region");
    };
    {
        let (mut a, mut b) = pool.contexts();
        let p = b.prepare::<_, H<N>, _>((), |tx, _, ()| PBox::new(tx, Node { v: 1, next: None }));
        let mut h = p.unwrap().committed();
        let p = a.prepare::<_, (), _>(h.lend(), |tx, _, mut h| {
            h.get_mut(tx)?.next = Some(PBox::new(tx, Node { v: 2, next: None })?);
            Ok(())
        });
        core::mem::forget(p);
        let p = b.prepare::<_, u32, _>(h, |tx, r, h| {
            let next = h.into_inner(tx)?.next.ok_or(tx.abort(0))?;
            let v = next.get(tx).v;
            r.get_mut(tx)?.a = Some(next);
            Ok(v)
        });
        assert_eq!(p.unwrap().committed(), 2);
        let p = b.prepare::<_, (), _>((), |tx, r, ()| {
            let own = PBox::new(tx, Node { v: 3, next: None })?;
            r.get_mut(tx)?.b = Some(own);
            Ok(())
        });
        p.unwrap().committed();
    }
    for word in [0, 1, 2, 3] {
        // Damage may be found, and is an error.
        if let Some(mut pool) = resolved(Region::new(&mut m), word) {
            assert!(pool.audit().unwrap().blocks >= 2);
        }
    }
}

/// Handles that `spent` reports as spent are refused by every transaction.
#[test]
fn spent_handles_are_numbers() {
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let recorded = bytes(&(node(&mut pool, 1), node(&mut pool, 2)));
    pool.walk().unwrap();
    let second = u32::from_le_bytes({
        let mut le = [0; 4];
        le[..size_of::<W>()].copy_from_slice(&recorded[size_of::<W>()..]);
        le
    });
    let (a, mut b) = pool
        .adopt_unspent::<(H<N>, H<N>)>(&recorded, &mut |off| off == second)
        .unwrap();
    let (mut c, mut d) = pool
        .adopt_unspent::<(H<N>, H<N>)>(&[9; 2 * size_of::<W>()], &mut |_| true)
        .unwrap();
    assert_eq!(pool.reclaim(), 1);
    for spent in [&mut b, &mut c, &mut d] {
        let r = pool.tx_with(spent.lend(), |_, _, _| Ok(()));
        assert_eq!(r.map_err(Error::from), Err(Error::WrongPool));
    }
    let f = pool.tx_with((a, b), |_, _, _| Ok(())).unwrap_err();
    assert_eq!(f.error, Error::WrongPool);
    let r = pool.tx_with(f.args.0, |tx, _, a| Ok(a.into_inner(tx)?.v));
    assert_eq!(r.unwrap(), 1);
}

/// The initial content: freed again, replaced, unwound; and no second root.
#[test]
fn misused_while_a_pool_is_formatted() {
    let mut m = buffer(256);
    let r = caught(|| {
        P::open(Region::new(&mut m), |tx| -> Result<Top<'_>, Error> {
            let _ = PBox::new(tx, 1u32)?;
            quiet()
        })
        .map(drop)
    });
    assert!(r.is_none());
    let r = P::open(Region::new(&mut m), |tx| {
        for _ in 0..100 {
            PBox::new(tx, [1u64; 4])?.free(tx)?;
        }
        Err(tx.abort(0))
    });
    let Err(refused) = r else {
        panic!("it is full");
    };
    assert!(matches!(
        refused.error,
        pmem_tx::OpenError::Init(Error::PoolFull { .. } | Error::JournalFull { .. })
    ));
    let mut pool = P::open(refused.region, |tx| {
        let mut own = PBox::new(tx, Node { v: 1, next: None })?;
        own.get_mut(tx)?.v = 2;
        let gone = PBox::new(tx, Node {
                v: 3,
                next: Some(own),
            })?
        .into_inner(tx)?;
        let mut cell = Ptr::new(tx, [true; 3])?;
        assert_eq!(cell.replace(tx, [false; 3])?, [true; 3]);
        Ok(Top {
            n: gone.v,
            a: gone.next,
            b: None,
            cell: Some(cell),
        })
    })
    .map_err(|r| r.error)
    .unwrap();
    let seen = pool.tx(|tx, r| {
        let r = r.get(tx);
        Ok((
            r.n,
            r.a.as_ref().map(|a| a.get(tx).v),
            r.cell.as_ref().map(|c| c.read(tx)),
        ))
    });
    assert_eq!(seen, Ok((3, Some(2), Some([false; 3]))));
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

/// A migration whose `change` fails or unwinds half-way leaves the old pool.
#[test]
fn a_migration_that_is_given_up() {
    #[derive(Persist)]
    #[repr(C)]
    struct Later<'p> {
        first: Option<Box<'p, Node<'p>>>,
        n: u64,
    }
    let mut m = buffer(256);
    let mut pool = open(Region::new(&mut m));
    let h = node(&mut pool, 4);
    pool.tx_with(h, |tx, r, h| {
        r.get_mut(tx)?.a = Some(h);
        Ok(())
    })
    .unwrap();
    for unwinds in [true, false] {
        let r = caught(|| {
            let region = Region::new(&mut m);
            let r = Pool::<Later, M>::migrate::<T, _, _>(
                region,
                &Config::DEFAULT,
                |_| Err(Error::Aborted(0)),
                |tx, old| {
                    let first = old.a.ok_or(tx.abort(1))?.into_inner(tx)?;
                    PBox::new(tx, first)?.get_mut(tx)?.v = 9;
                    if unwinds { quiet() } else { Err(tx.abort(2)) }
                },
            );
            r.map(drop).map_err(|r| r.error)
        });
        let aborted = pmem_tx::OpenError::Init(Error::Aborted(2));
        assert_eq!(r, (!unwinds).then_some(Err(aborted)));
        let mut pool = open(Region::new(&mut m));
        let v = pool.tx(|tx, r| Ok(r.get(tx).a.as_ref().map(|a| a.get(tx).v)));
        assert_eq!(v, Ok(Some(4)));
        assert_eq!(pool.audit().unwrap().unreachable, 0);
    }
}

/// Two threads give the first handle away at the same time: both handles are of the same session.
#[test]
fn two_contexts_begin_one_session() {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    enum Lock {}
    // SAFETY: a lock.
    unsafe impl pmem_tx::Section for Lock {
        fn with<R>(f: impl FnOnce() -> R) -> R {
            let _guard = ONE.lock();
            f()
        }
    }
    type Shared<'m> = Pool<'m, Contexts<(u32, u32)>, pmem_tx::Preempted<M, Lock>>;
    for _ in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut m = buffer(256);
        let Ok(mut pool) = Shared::open(Region::new(&mut m), |_| Ok((0, 0))) else {
            panic!("a blank region");
        };
        let (mut a, mut b) = pool.contexts();
        let start = std::sync::Barrier::new(2);
        let (h, g) = std::thread::scope(|s| {
            let first = s.spawn(|| {
                start.wait();
                a.tx_own::<_, H<u32>, _>((), |tx, _, ()| PBox::new(tx, 1u32))
                    .unwrap()
            });
            start.wait();
            let g = b
                .tx_own::<_, H<u32>, _>((), |tx, _, ()| PBox::new(tx, 2u32))
                .unwrap();
            (first.join().unwrap(), g)
        });
        let r = a.tx_with((h, g), |tx, _, (h, g)| {
            Ok(h.into_inner(tx)? + g.into_inner(tx)?)
        });
        assert_eq!(r.map_err(Error::from), Ok(3));
    }
}
