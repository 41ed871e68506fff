//! A handle that is dropped leaves its object behind.

#![deny(unused_must_use)]
include!("support/types.rs");

fn held(pool: &mut Store) {
    pool.tx_own::<_, Held<u32>, _>((), |tx, _, ()| PBox::new(tx, 1))
        .unwrap();
}

fn handle(pool: &mut Store) {
    let _ = pool.tx(|tx, _| {
        PBox::new(tx, 1u32)?;
        Ok(())
    });
}

fn prepared(context: &mut Context<u32>) {
    context.prepare::<_, (), _>((), |_, _, ()| Ok(())).unwrap();
}

fn result(pool: &mut Store) {
    pool.tx(|_, _| Ok(()));
}

fn main() {}
