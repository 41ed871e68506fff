//! A token, and what holds one, stays in the thread of its transaction. One message each.

include!("support/types.rs");

fn token(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        std::thread::scope(|s| {
            s.spawn(|| root.get(tx).n);
        });
        Ok(())
    });
}

fn token_moved(pool: &mut Store) {
    let _ = pool.tx(|tx, _| {
        std::thread::scope(|s| {
            s.spawn(move || PBox::new(1u32, tx).map(drop));
        });
        Ok(())
    });
}

fn slot(pool: &mut Store) {
    let _ = pool.tx(|tx, root| {
        let mut fields = root.fields(tx);
        std::thread::scope(|s| {
            s.spawn(move || fields.n.set(1));
        });
        Ok(())
    });
}

fn context(pool: &mut Store) {
    let mut context = pool.context();
    std::thread::scope(|s| {
        s.spawn(|| context.tx(|_, _| Ok(())).map(drop));
    });
}

fn prepared(pool: &mut Store) {
    let mut context = pool.context();
    let p = context.prepare::<(), u32, _>((), |_, _, ()| Ok(1));
    std::thread::scope(|s| {
        s.spawn(move || p.map(|p| p.committed()));
    });
}

fn pool_shared(pool: &mut Store) {
    let pool = &*pool;
    std::thread::scope(|s| {
        s.spawn(move || pool.session());
    });
}

fn main() {}
