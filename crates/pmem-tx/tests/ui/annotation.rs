//! A result with handles is named; so are a closure's parameters away from the call.

include!("support/types.rs");

fn a_result_of_unknown_type(pool: &mut Store) {
    let _ = pool.tx_own((), |tx, _, ()| PBox::new(tx, 1u32));
}

fn main() {}
