//! Programs that must compile: the counterpart of the refused ones.

include!("types.rs");

fn add<'p>(b: &mut PBox<'p, Node<'p>>, tx: &Tx<'p>) -> Result<(), Error> {
    b.get_mut(tx)?.v += 1;
    Ok(())
}
fn set<'p>(tx: &Tx<'p>, root: &mut Root<'p, Top<'p>>) -> Result<u32, Error> {
    root.get_mut(tx)?.n = 1;
    Ok(1)
}

fn helpers_and_functions(pool: &mut Store) -> Result<u32, Error> {
    pool.tx(|tx, root| {
        let Some(b) = &mut root.get_mut(tx)?.child else {
            return Ok(());
        };
        add(b, tx)
    })?;
    pool.tx(set)
}

fn question_mark(pool: &mut Store) -> Result<u32, Error> {
    let v = pool.tx(|tx, root| {
        let b = PBox::new(tx, 1u32)?;
        Ok(b.into_inner(tx)? + root.get(tx).n)
    })?;
    Ok(v)
}

fn captured_values(pool: &mut Store) {
    let (k, mut seen) = (3, vec![]);
    let _ = pool.tx(|tx, root| {
        root.get_mut(tx)?.n = k;
        seen.push(root.get(tx).n);
        Ok(())
    });
}

fn two_children_at_once(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let Top {
            child: Some(x),
            other: Some(y),
            n,
            ..
        } = root.get_mut(tx)?
        else {
            return Ok(());
        };
        *n += 1;
        core::mem::swap(x.get_mut(tx)?, y.get_mut(tx)?);
        core::mem::swap(x, y);
        Ok(())
    });
}

fn allocated_while_borrowed(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let top = root.get_mut(tx)?;
        top.child = Some(PBox::new(tx, Node {
                v: top.n,
                next: top.child.take(),
            })?);
        top.n += 1;
        Ok(())
    });
}

fn slots_of_several_fields_at_once(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut s = root.fields(tx);
        let (n, last) = (s.n.into_mut()?, s.last.at_mut(2)?);
        *n += *last;
        *last = *n;
        Ok(())
    });
}

fn walked_without_logging(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut at = root.fields(tx).child;
        while let Some(node) = at.into_follow() {
            let mut fields = node.into_fields();
            *fields.v.get_mut()? += 1;
            at = fields.next;
        }
        *root.fields(tx).n.get_mut()? += 1;
        Ok(())
    });
}

fn lent_held_and_plain(pool: &mut Store, h: &mut Held<Node<'_>>, g: Held<N>) -> Result<u32, Error> {
    let v = pool.tx_with((h.lend(), g, 1u32), |tx, root, (mut h, g, k)| {
        h.get_mut(tx)?.v += k;
        root.get_mut(tx)?.child = Some(g);
        Ok(h.get(tx).v)
    })?;
    Ok(v)
}

fn two_pools_open_at_once(p: &mut Store, q: &mut Store) -> Result<(), Error> {
    p.tx(|tx, r| {
        q.tx(|ty, s| {
            r.get_mut(tx)?.n = s.get(ty).n;
            s.get_mut(ty)?.n += 1;
            Ok(())
        })
    })
}

fn nested_may_use_what_the_outer_one_lent<'p>(
    tx: &Tx<'p>,
    root: &mut Root<'p, Top<'p>>,
) -> Result<(), Error> {
    let mut own = PBox::new(tx, 1u32)?;
    let lent = own.get_mut(tx)?;
    tx.nested(root, |tx, root| {
        *lent += root.get(tx).n;
        Ok(())
    })?;
    own.free(tx)
}

fn main() {
    let mut words = [core::mem::MaybeUninit::new(0); 128];
    let mut pool = Store::open(Region::new(&mut words), |_| {
        Ok(Top {
            n: 0,
            last: [0; 4],
            child: None,
            other: None,
            cell: None,
        })
    })
    .unwrap();
    helpers_and_functions(&mut pool).unwrap();
    assert_eq!(question_mark(&mut pool), Ok(2));
    captured_values(&mut pool);
    two_children_at_once(&mut pool);
    allocated_while_borrowed(&mut pool);
    slots_of_several_fields_at_once(&mut pool);
    walked_without_logging(&mut pool);
    pool.tx(nested_may_use_what_the_outer_one_lent).unwrap();
    let _ = (lent_held_and_plain, two_pools_open_at_once);
}
