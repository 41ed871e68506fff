//! Rule 1: nothing persistent leaves through a static, a thread-local, a trait object or a panic.

use std::cell::Cell;
use std::sync::Mutex;

include!("support/types.rs");

static HANDLE: Mutex<Option<PBox<'static, N>>> = Mutex::new(None);
thread_local! {
    static LOCAL: Cell<Option<PBox<'static, N>>> = const { Cell::new(None) };
    static NUMBER: Cell<Option<&'static u32>> = const { Cell::new(None) };
}

fn handle_in_a_static(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        *HANDLE.lock().unwrap() = root.get_mut(tx)?.child.take();
        Ok(())
    });
}

fn handle_in_a_thread_local(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        LOCAL.set(root.get_mut(tx)?.child.take());
        Ok(())
    });
}

fn reference_in_a_thread_local(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        NUMBER.set(Some(&root.get(tx).n));
        Ok(())
    });
}

fn handle_as_any(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let _any: Box<dyn std::any::Any> = Box::new(root.get_mut(tx)?.child.take());
        Ok(())
    });
}

fn handle_as_panic(pool: &mut Store) {
    let _ = pool.tx(|tx, root| -> Result<(), Error> {
        std::panic::panic_any(root.get_mut(tx)?.child.take())
    });
}

fn a_token_of_any_brand(pool: &mut Store) {
    let _ = pool.tx(|_: &Tx<'static>, _| Ok(()));
}

fn a_handle_from_nowhere(pool: &mut Store, b: PBox<'static, N>) {
    let _ = pool.tx(|tx, _| Ok(b.get(tx).v));
}

fn main() {}
