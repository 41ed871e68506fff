//! Lists stay in one thread; several threads share them by `Shared`.

use nvlist::NodePool;

/// As `std::thread::spawn` asks; its own message shows more where the standard library's source is
/// installed.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn shared_by_two(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|lists, [a]| {
        in_another_thread(|| lists.is_empty(a));
    })
}

fn main() {}
