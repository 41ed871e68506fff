//! embassy's time by SysTick, in milliseconds. A HAL of embassy's has a driver of its own.

use core::cell::{Cell, RefCell};
use core::task::Waker;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use critical_section::Mutex;
use embassy_time_driver::{Driver, time_driver_impl};
use embassy_time_queue_utils::Queue;

/// The ticks since the boot, and who waits for one.
struct SysTickDriver {
    ticks: Mutex<Cell<u64>>,
    queue: Mutex<RefCell<Queue>>,
}

time_driver_impl!(static DRIVER: SysTickDriver = SysTickDriver {
    ticks: Mutex::new(Cell::new(0)),
    queue: Mutex::new(RefCell::new(Queue::new())),
});

/// Begins.
pub fn tick_every_ms(mut systick: cortex_m::peripheral::SYST, hz: u32) {
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(hz / 1000 - 1);
    systick.clear_current();
    systick.enable_counter();
    systick.enable_interrupt();
}

impl Driver for SysTickDriver {
    fn now(&self) -> u64 {
        critical_section::with(|cs| self.ticks.borrow(cs).get())
    }
    fn schedule_wake(&self, at: u64, waker: &Waker) {
        // Each tick looks at the queue.
        critical_section::with(|cs| self.queue.borrow_ref_mut(cs).schedule_wake(at, waker));
    }
}

#[exception]
fn SysTick() {
    critical_section::with(|cs| {
        let now = DRIVER.ticks.borrow(cs).get() + 1;
        DRIVER.ticks.borrow(cs).set(now);
        DRIVER.queue.borrow_ref_mut(cs).next_expiration(now);
    });
}
