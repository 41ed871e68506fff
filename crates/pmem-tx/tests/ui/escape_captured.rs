//! Rule 1: nothing persistent leaves through a captured variable.

use std::cell::*;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;

include!("support/types.rs");

fn reference(pool: &mut Store) {
    let mut out = None;
    let _ = pool.tx(|tx, root| {
        out = Some(&root.get(tx).n);
        Ok(())
    });
}

fn token(pool: &mut Store) {
    let mut out = None;
    let _ = pool.tx(|tx, _| {
        out = Some(tx);
        Ok(())
    });
}

fn handle(pool: &mut Store) {
    let mut out = None;
    let _ = pool.tx(|tx, root| {
        out = root.get_mut(tx)?.child.take();
        Ok(())
    });
}

fn handle_in_a_cell(pool: &mut Store) {
    let out = Cell::new(None);
    let _ = pool.tx(|tx, root| {
        out.set(root.get_mut(tx)?.child.take());
        Ok(())
    });
}

fn references_in_a_vec(pool: &mut Store) {
    let out = RefCell::new(vec![]);
    let _ = pool.tx(|tx, root| {
        out.borrow_mut().push(root.get(tx));
        Ok(())
    });
}

fn reference_in_a_once_cell(pool: &mut Store) {
    let out = OnceCell::new();
    let _ = pool.tx(|tx, root| {
        let _ = out.set(&root.get(tx).n);
        Ok(())
    });
}

fn handle_through_a_channel(pool: &mut Store) {
    let (s, _r) = mpsc::channel();
    let _ = pool.tx(|tx, root| {
        let _ = s.send(root.get_mut(tx)?.child.take());
        Ok(())
    });
}

fn handle_asserted_unwind_safe(pool: &mut Store) {
    let out = AssertUnwindSafe(Cell::new(None));
    let _ = pool.tx(|tx, root| {
        out.set(root.get_mut(tx)?.child.take());
        Ok(())
    });
}

fn a_closure_that_reads(pool: &mut Store) {
    let mut later: Option<Box<dyn Fn() -> u32>> = None;
    let _ = pool.tx(|tx, root| {
        let r = root.get(tx);
        later = Some(Box::new(move || r.n));
        Ok(())
    });
}

/// A lent handle.
fn lent(pool: &mut Store, h: &mut Held<N>) {
    let mut out = None;
    let _ = pool.tx_with(h.lend(), |_, _, h| {
        out = Some(h);
        Ok(())
    });
}

fn main() {}
