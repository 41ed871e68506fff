//! A token, and a type that holds one, stays in the thread of its transaction. One message each.

include!("support/types.rs");

/// As `std::thread::spawn` asks; its own message shows more where the standard library's source is
/// installed.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn token(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        in_another_thread(|| root.get(tx).n);
        Ok(())
    });
}

fn token_moved(pool: &mut Store) {
    let _ = pool.tx(|tx, _| {
        in_another_thread(move || PBox::new(tx, 1u32).map(drop));
        Ok(())
    });
}

fn slot(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut fields = root.fields(tx);
        in_another_thread(move || fields.n.set(1));
        Ok(())
    });
}

fn context(pool: &mut Store) {
    let mut context = pool.context();
    in_another_thread(|| context.tx(|_, _| Ok(())).map(drop));
}

fn prepared(pool: &mut Store) {
    let mut context = pool.context();
    let Ok(p) = context.prepare::<(), u32, _>((), |_, _, ()| Ok(1)) else {
        return;
    };
    in_another_thread(move || p.committed());
}

fn pool_shared(pool: &mut Store) {
    let pool = &*pool;
    in_another_thread(move || pool.session());
}

fn main() {}
