//! Rules 1 and 2: nothing persistent is a transaction's result.

include!("support/types.rs");

fn reference(pool: &mut Store) {
    let _ = pool.tx(|tx, root| Ok(root.get(tx)));
}

fn reference_to_a_field(pool: &mut Store) {
    let _ = pool.tx(|tx, root| Ok(&root.get(tx).n));
}

fn mutable_reference(pool: &mut Store) {
    let _ = pool.tx(|tx, root| root.get_mut(tx));
}

fn handle(pool: &mut Store) {
    let _ = pool.tx(|tx, root| Ok(root.get_mut(tx)?.child.take()));
}

fn token(pool: &mut Store) {
    let _ = pool.tx(|tx, _| Ok(tx));
}

fn slot(pool: &mut Store) {
    let _ = pool.tx(|tx, root| Ok(root.fields(tx).n));
}

fn main() {}
