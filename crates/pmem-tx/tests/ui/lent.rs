//! A lent handle can be neither kept nor exchanged.

include!("support/types.rs");

fn stored(pool: &mut Store, h: &mut Held<N>) {
    let _ = pool.tx_with(h.lend(), |tx, root, h| {
        *root.get_mut(tx)?.child.as_mut().unwrap() = h;
        Ok(())
    });
}

/// `core::mem::swap`, here so that a message shows no source of the standard library, which not
/// everybody has.
fn swap<T>(_: &mut T, _: &mut T) {}

fn swapped(pool: &mut Store, h: &mut Held<N>) {
    let _ = pool.tx_with(h.lend(), |tx, root, mut h| {
        swap(&mut h, root.get_mut(tx)?.child.as_mut().unwrap());
        Ok(())
    });
}

fn freed(pool: &mut Store, h: &mut Held<N>) {
    let _ = pool.tx_with(h.lend(), |tx, _, h| {
        h.into_inner(tx)?;
        Ok(())
    });
}

fn returned(pool: &mut Store, h: &mut Held<N>) {
    let _ = pool.tx_own::<_, Held<N>, _>(h.lend(), |_, _, h| {
        let own: PBox<N> = h;
        Ok(own)
    });
}

fn main() {}
