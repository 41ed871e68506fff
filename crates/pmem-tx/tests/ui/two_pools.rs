//! Two transactions, two brands: handles of one are refused by the other.

include!("support/types.rs");

fn a_handle_moved(p: &mut Store, q: &mut Store) {
    let _ = p.tx(|tx, r| {
        q.tx(|ty, s| {
            s.get_mut(ty)?.child = r.get_mut(tx)?.child.take();
            Ok(())
        })
    });
}

fn the_other_token(p: &mut Store, q: &mut Store) {
    let _ = p.tx(|_, r| {
        q.tx(|ty, _| {
            r.get_mut(ty)?.n = 1;
            Ok(())
        })
    });
}

fn roots_swapped(p: &mut Store, q: &mut Store) {
    let _ = p.tx(|_, r| {
        q.tx(|_, s| {
            core::mem::swap(r, s);
            Ok(())
        })
    });
}

fn two_contexts(pool: &mut Pool<Contexts<(Top<'static>, Top<'static>)>>) {
    let (mut a, mut b) = pool.contexts();
    let _ = a.tx(|tx, r| {
        b.tx(|ty, s| {
            core::mem::swap(&mut r.get_mut(tx)?.child, &mut s.get_mut(ty)?.child);
            Ok(())
        })
    });
}

fn an_outer_handle_stored_by_a_nested_one<'p>(
    tx: &Tx<'p>,
    root: &mut Root<'p, Top<'p>>,
    b: PBox<'p, Node<'p>>,
) {
    let _ = tx.nested(root, |tx, root| {
        root.get_mut(tx)?.child = Some(b);
        Ok(())
    });
}

fn an_outer_handle_with_the_inner_token<'p>(
    tx: &Tx<'p>,
    root: &mut Root<'p, Top<'p>>,
    b: &mut PBox<'p, Node<'p>>,
) {
    let _ = tx.nested(root, |tx, _| {
        b.get_mut(tx)?.v = 1;
        Ok(())
    });
}

fn the_inner_root_with_the_outer_token<'p>(tx: &Tx<'p>, root: &mut Root<'p, Top<'p>>) {
    let _ = tx.nested(root, |_, inner| {
        inner.get_mut(tx)?.n = 1;
        Ok(())
    });
}

fn main() {}
