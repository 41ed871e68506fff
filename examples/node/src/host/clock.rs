//! embassy's time on the host: it goes on when no task has anything to do, and while the power is
//! off.

use core::cell::RefCell;
use core::task::Waker;
use critical_section::Mutex;
use embassy_time_driver::{Driver, time_driver_impl};
use embassy_time_queue_utils::Queue;

struct Inner {
    now: u64,
    queue: Queue,
}

/// The clock of the simulated world, in microseconds.
pub struct Virtual(Mutex<RefCell<Inner>>);

time_driver_impl!(static CLOCK: Virtual = Virtual(Mutex::new(RefCell::new(Inner {
    now: 0,
    queue: Queue::new(),
}))));

/// The one that embassy knows.
pub fn clock() -> &'static Virtual {
    &CLOCK
}

impl Driver for Virtual {
    fn now(&self) -> u64 {
        critical_section::with(|cs| self.0.borrow_ref(cs).now)
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|cs| {
            let mut inner = self.0.borrow_ref_mut(cs);
            if at <= inner.now {
                waker.wake_by_ref();
            } else {
                inner.queue.schedule_wake(at, waker);
            }
        });
    }
}

impl Virtual {
    /// The instant.
    pub fn time(&self) -> u64 {
        Driver::now(self)
    }

    /// Lets the time go on to the next instant that a task waits for, at most to `end`, and wakes
    /// who waits for it. Whether it is the end.
    pub fn go_on(&self, end: u64) -> bool {
        critical_section::with(|cs| {
            let mut inner = self.0.borrow_ref_mut(cs);
            let now = inner.now;
            let next = inner.queue.next_expiration(now);
            inner.now = next.min(end).max(now);
            let now = inner.now;
            inner.queue.next_expiration(now);
            now >= end
        })
    }

    /// The power is off for so long: nobody waits any more.
    pub fn off(&self, time: u64) {
        critical_section::with(|cs| {
            let mut inner = self.0.borrow_ref_mut(cs);
            inner.now += time;
            inner.queue = Queue::new();
        });
    }

    /// The time begins.
    pub fn reset(&self) {
        critical_section::with(|cs| {
            *self.0.borrow_ref_mut(cs) = Inner {
                now: 0,
                queue: Queue::new(),
            };
        });
    }
}
