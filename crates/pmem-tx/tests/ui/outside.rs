//! Rules 1 and 4: without a transaction there is neither access nor a token.

include!("support/types.rs");

fn held_is_not_read(h: &Held<N>) -> u32 {
    h.get(()).v
}

fn held_is_not_read_inside_either(pool: &mut Store, h: &Held<N>) {
    let _ = pool.tx(|tx, _| Ok(h.get(tx).v));
}

fn held_is_not_written(pool: &mut Store, h: &mut Held<N>) {
    let _ = pool.tx(|tx, _| {
        h.get_mut(tx)?.v = 1;
        Ok(())
    });
}

fn handles_have_no_copy(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let child = root.get(tx).child.as_ref().unwrap();
        let _two: PBox<N> = child.clone();
        Ok(())
    });
}

fn main() {}
