//! The lists are used by one thread at a time: several share them by `Shared`.

use nvlist::NodePool;

fn in_another_thread(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|lists, [a]| {
        std::thread::scope(|s| {
            s.spawn(|| lists.is_empty(a));
        });
    })
}

fn main() {}
