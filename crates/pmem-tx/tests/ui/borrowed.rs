//! A region, a pool and a context have one user at a time.

include!("support/types.rs");

fn two_pools_in_one_buffer(words: &mut [core::mem::MaybeUninit<u64>]) {
    let a = Region::<InOrder32>::new(words);
    let b = Region::<InOrder32>::new(words);
    drop((a, b));
}

fn a_freed_buffer() -> Region<'static, InOrder32> {
    let mut words = [core::mem::MaybeUninit::new(0); 64];
    Region::new(&mut words)
}

/// Rule 5: what the transaction has borrowed cannot be locked, opened or closed in it.
fn one_in_the_other(pool: &mut Store) {
    let _ = pool.tx(|_, _| {
        let _ = pool.tx(|_, _| Ok(()));
        Ok(())
    });
}

fn two_contexts_of_one_root(pool: &mut Store) {
    let mut a = pool.context();
    let mut b = pool.context();
    let _ = a.tx(|_, _| b.tx(|_, _| Ok(())));
}

fn contexts_twice(pool: &mut Pool<Contexts<(u32, u32)>>) {
    let (mut a, _) = pool.contexts();
    let (mut b, _) = pool.contexts();
    let _ = a.tx(|_, _| b.tx(|_, _| Ok(())));
}

fn closed_under_a_context(mut pool: Store) {
    let mut c = pool.context();
    drop(pool.close());
    let _ = c.tx(|_, _| Ok(()));
}

fn closed_under_a_prepared_one(mut pool: Store) {
    let mut c = pool.context();
    let p = c.prepare::<_, (), _>((), |_, _, ()| Ok(()));
    drop(pool.close());
    let _ = p.map(|p| p.committed());
}

fn begun_over_a_prepared_one(context: &mut Context<u32>) {
    let p = context.prepare::<_, (), _>((), |_, _, ()| Ok(()));
    let _ = context.tx(|_, _| Ok(()));
    let _ = p.map(|p| p.committed());
}

fn reclaimed_inside(pool: &mut Store) {
    let _ = pool.tx(|_, _| {
        pool.reclaim();
        Ok(())
    });
}

fn main() {}
