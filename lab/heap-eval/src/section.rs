//! A critical section that does nothing, so that what is measured is the heap. The programs here
//! have one thread and no interrupts.

use critical_section::RawRestoreState;

struct Nothing;
critical_section::set_impl!(Nothing);

// SAFETY: there is nothing that could come in between.
unsafe impl critical_section::Impl for Nothing {
    #[inline(always)]
    unsafe fn acquire() -> RawRestoreState {
        RawRestoreState::default()
    }
    #[inline(always)]
    unsafe fn release(_: RawRestoreState) {}
}
