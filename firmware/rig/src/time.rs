//! Processor time of a thread: other programs on the machine shall not change a rate.

use std::time::Instant;

/// Runs from when it is made.
pub struct Stopwatch {
    wall: Instant,
    processor: Option<u64>,
}

/// Nanoseconds that this thread has run, where the system tells.
fn processor() -> Option<u64> {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes to the one place that it is given.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    (done == 0).then_some(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Self {
        Stopwatch {
            wall: Instant::now(),
            processor: processor(),
        }
    }

    /// Seconds of processor time since the start, of this thread; of the wall's clock where the
    /// system does not tell.
    pub fn seconds(&self) -> f64 {
        match (self.processor, processor()) {
            (Some(a), Some(b)) => (b - a) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}
