// A program on a pool of the model `M` with handles of width `W`, compared with the plain one after
// each step.

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    v: u32,
    next: Option<PBox<'p, Node<'p>, W>>,
}
#[derive(Persist)]
#[repr(C)]
struct Top<'p> {
    count: u32,
    last: [u16; 5],
    list: Option<PBox<'p, Node<'p>, W>>,
    cell: Ptr<'p, [u16; 3], W>,
}
type P<'m> = Pool<'m, Top<'static>, M>;

const CONFIG: Config = Config {
    journal_entries: 60,
    journal_bytes: 800,
    seq_bits: 5,
};

fn open<'m>(region: Region<'m, M>) -> P<'m> {
    P::open_with(region, &CONFIG, |tx| {
        let cell = Ptr::new(tx, [0; 3])?;
        Ok(Top {
            count: 0,
            last: [0; 5],
            list: None,
            cell,
        })
    })
    .unwrap()
}

fn apply<'p>(tx: &Tx<'p, M>, root: &mut Root<'p, Top<'p>, W>, op: &Op) -> Result<(), Error> {
    match op {
        Op::Push(v) => {
            let list = root.fields(tx).list.into_mut()?;
            *list = Some(PBox::new(tx, Node {
                    v: *v,
                    next: list.take(),
                })?);
        }
        Op::Pop => {
            let list = root.get_mut(tx)?.list.take();
            if let Some(first) = list {
                root.get_mut(tx)?.list = first.into_inner(tx)?.next;
            }
        }
        Op::Add(i, v) => {
            let mut at = root.fields(tx).list;
            for _ in 0..*i {
                match at.into_follow() {
                    Some(node) => at = node.into_fields().next,
                    None => return Ok(()),
                }
            }
            if let Some(node) = at.into_follow() {
                let mut slot = node.into_fields().v;
                let new = slot.get().wrapping_add(*v);
                slot.set(new)?;
            }
        }
        Op::Swap => {
            let list = &mut root.get_mut(tx)?.list;
            let Some(mut a) = list.take() else {
                return Ok(());
            };
            let Some(mut b) = a.get_mut(tx)?.next.take() else {
                *list = Some(a);
                return Ok(());
            };
            a.get_mut(tx)?.next = b.get_mut(tx)?.next.take();
            b.get_mut(tx)?.next = Some(a);
            *list = Some(b);
        }
        Op::Cell(v) => root.fields(tx).cell.write(*v)?,
        Op::Count(n) => root.fields(tx).count.set(*n)?,
        Op::Element(i, v) => *root.fields(tx).last.at_mut(i % 5)? = *v,
        Op::Nested(ops, ok) => {
            let mut limit = None;
            let r = tx.nested(root, |tx, root| {
                for op in ops {
                    apply(tx, root, op).inspect_err(|e| limit = Some(*e))?;
                }
                if *ok { Ok(()) } else { Err(tx.abort(2)) }
            });
            assert_eq!(r.is_ok(), *ok && limit.is_none());
            if let Some(e) = limit {
                return Err(e);
            }
        }
    }
    Ok(())
}

fn read(pool: &mut P<'_>) -> Model {
    pool.tx(|tx, root| {
        let top = root.get(tx);
        let (mut list, mut at) = (vec![], &top.list);
        while let Some(b) = at {
            list.push(b.get(tx).v);
            at = &b.get(tx).next;
        }
        Ok(Model {
            list,
            cell: top.cell.read(tx),
            count: top.count,
            last: top.last,
        })
    })
    .unwrap()
}

fn rotate(pool: &mut P<'_>) {
    let first = pool.tx_own::<_, Held<Node<'static>, W>, _>((), |tx, root, ()| {
        let list = &mut root.get_mut(tx)?.list;
        let mut first = list.take().ok_or(tx.abort(0))?;
        *list = first.get_mut(tx)?.next.take();
        Ok(first)
    });
    let Ok(mut first) = first else { return };
    // Lent, passed by value and returned: nothing changes.
    let v = pool
        .tx_with(first.lend(), |tx, _, h| Ok(h.get(tx).v))
        .unwrap();
    let f = pool.tx_with(first, |tx, root, h| {
        root.get_mut(tx)?.list = Some(h);
        Err::<(), _>(tx.abort(1))
    });
    let first = f.unwrap_err().args;
    pool.tx_with(first, |tx, root, h| {
        assert_eq!(h.get(tx).v, v);
        let mut at = &mut root.get_mut(tx)?.list;
        while let Some(b) = at {
            at = &mut b.get_mut(tx)?.next;
        }
        *at = Some(h);
        Ok(())
    })
    .unwrap();
}

fn run(steps: &[Step]) {
    let mut m = vec![MaybeUninit::new(0); 700];
    let mut pool = open(Region::new(&mut m));
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Reopen => pool = open(pool.close()),
            Step::Rotate if model.list.len() > 20 => continue,
            Step::Rotate => {
                rotate(&mut pool);
                if !model.list.is_empty() {
                    model.list.rotate_left(1);
                }
            }
            Step::Tx(ops, ok) => {
                let mut next = model.clone();
                ops.iter().for_each(|op| next.apply(op));
                let r = pool.tx(|tx, root| {
                    for op in ops {
                        apply(tx, root, op)?;
                    }
                    if *ok { Ok(()) } else { Err(tx.abort(1)) }
                });
                match r {
                    Ok(()) => model = next,
                    Err(Error::Aborted(1)) => assert!(!ok),
                    // A limit was met: as if aborted.
                    Err(Error::JournalFull { .. } | Error::PoolFull { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
            }
        }
        assert_eq!(read(&mut pool), model);
        let a = pool.audit().unwrap();
        assert_eq!((a.blocks, a.unreachable), (model.list.len() + 2, 0));
    }
}
