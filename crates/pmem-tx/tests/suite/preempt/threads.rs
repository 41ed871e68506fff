//! Contexts in threads of the operating system, with a lock as their section: Miri sees each access
//! that no lock orders.

use crate::preempt::model::{One, Op, open, program};
use nvmem::{InOrder32, Model, Region};
use pmem_tx::{Preempted, Section, Width};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::Mutex;

enum Lock {}
static LOCK: Mutex<()> = Mutex::new(());
thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}
// SAFETY: a lock orders what runs under it; the flag is this thread's.
unsafe impl Section for Lock {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        assert!(!INSIDE.replace(true), "a section in a section");
        let guard = LOCK.lock();
        let r = f();
        drop(guard);
        INSIDE.set(false);
        r
    }
}

fn both<M: Model>()
where
    M::Unit: Width,
    for<'c> One<'c, M>: Send,
{
    use Op::*;
    let rounds = if cfg!(miri) { 1 } else { 200 };
    // Enough space in any order of allocation: no `PoolFull`.
    let mut words = [MaybeUninit::new(0); 1024];
    let mut pool = open::<M>(Region::new(&mut words));
    let (mut a, mut b) = pool.contexts();
    let ops = [
        Push(5),
        Big(2),
        NewCell(3),
        Pop,
        Abort(6),
        Cell(4),
        Nested(7),
        Pop,
        Update(1),
    ];
    std::thread::scope(|s| {
        s.spawn(|| program(&mut a, &ops, &[1, 2], rounds));
        s.spawn(|| program(&mut b, &ops, &[1], rounds));
    });
    assert_eq!(pool.audit().map(|a| a.unreachable), Ok(0));
}

#[test]
fn contexts_go_to_threads() {
    both::<Preempted<InOrder32, Lock>>();
}
