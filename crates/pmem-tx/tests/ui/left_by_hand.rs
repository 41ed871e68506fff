//! A handle leaves a transaction only as its result: if it left before the commit, an abort would
//! give its object two owners.

include!("support/types.rs");

use nvmem::cross::Ret;

fn smuggle(pool: &mut Store) -> Option<Held<Node<'static>>> {
    let mut kept = None;
    let _: Result<(), Error> = pool.tx(|tx, root| {
        if let Some(b) = root.get_mut(tx)?.child.take() {
            kept = Some(<Held<Node<'static>> as Ret>::leave(b, 1));
        }
        Err(Error::Aborted(1))
    });
    kept
}

fn main() {}
