//! What the steps of a boot find, which capture nothing: its judge, its clock and its handlers.

use super::judge::Judge;
use super::program::Op;
use nv_rtos::pmem_tx::Section;
use powerfail::Threads;
use std::cell::Cell;
use std::rc::Rc;

type Handler = Rc<dyn Fn(Op)>;
type Unpark = Rc<dyn Fn(usize)>;

thread_local! {
    static BOOT: Cell<(*const Judge<'static>, *const Threads<'static, 'static>)> =
        const { Cell::new((std::ptr::null(), std::ptr::null())) };
}

/// Steps capture nothing, so they find the judge of their boot here.
pub fn set_judge(judge: &Judge<'_>, threads: &Threads<'_, '_>) {
    BOOT.set(((&raw const *judge).cast(), (&raw const *threads).cast()));
}

thread_local! {
    static HANDLER: Cell<Option<Handler>> = const { Cell::new(None) };
}

/// The handler of the boot, for interrupts that a program makes itself.
pub fn set_handler<'a>(handler: impl Fn(Op) + 'a) {
    let handler: Rc<dyn Fn(Op) + 'a> = Rc::new(handler);
    // SAFETY: only the lifetime changes: it is called by threads of the boot only.
    let handler = unsafe { std::mem::transmute::<Rc<dyn Fn(Op) + 'a>, Handler>(handler) };
    HANDLER.set(Some(handler));
}

/// A handler comes now.
pub fn software_interrupt(op: Op) {
    let handler = HANDLER.take().expect("a boot");
    HANDLER.set(Some(handler.clone()));
    powerfail::masked(|| handler(op));
}

thread_local! {
    static UNPARK: Cell<Option<Unpark>> = const { Cell::new(None) };
}

/// How a parked thread of the boot runs again.
pub fn set_unpark<'a>(unpark: impl Fn(usize) + 'a) {
    let unpark: Rc<dyn Fn(usize) + 'a> = Rc::new(unpark);
    // SAFETY: only the lifetime changes: it is called by threads of the boot only.
    let unpark = unsafe { std::mem::transmute::<Rc<dyn Fn(usize) + 'a>, Unpark>(unpark) };
    UNPARK.set(Some(unpark));
}

/// A parked thread runs again.
pub fn unpark(t: usize) {
    let unpark = UNPARK.take().expect("a boot");
    UNPARK.set(Some(unpark.clone()));
    unpark(t);
}

/// The running thread works for so many ticks, however often others preempt it.
pub fn work(ticks: u64) {
    // SAFETY: called by threads of the boot only, whose machine exists.
    let threads = unsafe { &*BOOT.get().1 };
    let end = threads.now() + ticks;
    while threads.now() < end {
        threads.sleep_until(end);
    }
    judge();
}

/// Until this is dropped, there is a judge.
pub struct Judged;
impl Drop for Judged {
    fn drop(&mut self) {
        HANDLER.set(None);
        UNPARK.set(None);
        BOOT.set((std::ptr::null(), std::ptr::null()));
    }
}

/// The judge of the boot that runs, with the machine's clock.
pub fn judge() -> &'static Judge<'static> {
    let (judge, threads) = BOOT.get();
    // SAFETY: called by threads and handlers of the boot only, whose judge and machine exist.
    let (judge, threads) = unsafe { (&*judge, &*threads) };
    judge.ticks.set(threads.now());
    judge
}

/// The kernel's critical section. What the judge has found in it fails the thread after it: a panic
/// inside would leave the kernel's state borrowed.
pub enum Checked {}
// SAFETY: that of the kit.
unsafe impl Section for Checked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        let r = powerfail::masked(f);
        if !BOOT.get().0.is_null() {
            judge().check();
        }
        r
    }
}
