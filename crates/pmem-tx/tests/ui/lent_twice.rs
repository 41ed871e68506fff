//! A handle is lent to one transaction at a time.

include!("support/types.rs");

fn at_once(pool: &mut Store, h: &mut Held<N>) {
    let _ = pool.tx_with((h.lend(), h.lend()), |_, _, _| Ok(()));
}

fn and_given(pool: &mut Store, mut h: Held<N>) {
    let l = h.lend();
    let _ = pool.tx_with(h, |_, _, _| Ok(()));
    let _ = pool.tx_with(l, |_, _, _| Ok(()));
}

fn main() {}
