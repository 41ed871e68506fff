//! An owner is moved, never copied.

include!("support/types.rs");

fn out_of_a_reference(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let _c = root.get(tx).child;
        Ok(())
    });
}

fn the_whole_out_of_a_reference(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let _c = *root.get(tx);
        Ok(())
    });
}

fn a_region_opened_twice(r: Region<InOrder32>) {
    let _a = Pool::<u32>::open(r, |_| Ok(1));
    let _b = Pool::<u32>::open(r, |_| Ok(1));
}

fn held_given_twice(pool: &mut Store, h: Held<N>) {
    let _ = pool.tx_with(h, |_, _, _h| Ok(()));
    let _ = pool.tx_with(h, |_, _, _h| Ok(()));
}

fn held_given_twice_at_once(pool: &mut Store, h: Held<N>) {
    let _ = pool.tx_with((h, h), |_, _, _h| Ok(()));
}

fn closed_while_used(pool: Store) {
    let _region = pool.close();
    let _ = pool.session();
}

fn a_token(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let _t = *tx;
        Ok(())
    });
}

fn main() {}
