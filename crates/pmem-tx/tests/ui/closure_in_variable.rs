//! A closure that is not written at the call is for one brand only: write a function.

include!("support/types.rs");

fn in_a_variable(pool: &mut Store) {
    let body = |tx: &Tx<'_>, root: &mut Root<'_, Top<'_>>| {
        root.get_mut(tx)?.n = 1;
        Ok(())
    };
    let _ = pool.tx(body);
}

fn main() {}
