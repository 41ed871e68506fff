//! Only plain values and handles cross the border of a transaction.

include!("support/types.rs");

fn a_reference(pool: &mut Store) {
    let mut x = 1u32;
    let _ = pool.tx_with(&mut x, |_, _, x| {
        *x += 1;
        Ok(())
    });
}

fn a_vec_out(pool: &mut Store) {
    let _ = pool.tx_own::<_, Vec<u8>, _>((), |_, _, ()| Ok(vec![]));
}

fn a_handle_out(pool: &mut Store) {
    let _ = pool.tx_own::<_, PBox<'static, u32>, _>((), |tx, _, ()| PBox::new(tx, 1));
}

fn a_handle_in(pool: &mut Store, b: PBox<'static, u32>) {
    let _ = pool.tx_with(b, |tx, _, b| b.free(tx));
}

fn main() {}
