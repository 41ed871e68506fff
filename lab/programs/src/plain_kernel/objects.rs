//! Queues, event groups, mutexes and timers.

use super::{At, Object, Root, RootOf, Sys, System, TIME, Until, pmem_tx};
use core::marker::PhantomData;

/// A queue of up to `N` messages.
pub struct Queue<S, T, const N: usize> {
    pub(crate) at: At,
    _s: PhantomData<fn() -> (S, T)>,
}

/// What of a queue is in the memory.
#[repr(C)]
pub struct Messages<T, const N: usize> {
    first: u8,
    len: u8,
    slots: [core::mem::MaybeUninit<T>; N],
}

impl<S, T, const N: usize> Object for Queue<S, T, N> {
    type State = Messages<T, N>;
    unsafe fn begin(state: *mut Messages<T, N>) {
        // SAFETY: by the contract.
        unsafe { ((*state).first, (*state).len) = (0, 0) }
    }
}

impl<S: System, T: Copy, const N: usize> Queue<S, T, N> {
    pub(crate) const fn at(at: At) -> Self {
        let _s = PhantomData;
        Queue { at, _s }
    }
    #[inline(always)]
    fn state(&self, sys: &Sys<'_, '_, S>) -> *mut Messages<T, N> {
        sys.kernel.memory.wrapping_byte_add(self.at.offset).cast()
    }

    /// Sends a message; waits until there is a slot for it. **Errors**: none.
    pub fn send(&self, sys: &Sys<'_, '_, S>, message: T) -> Result<(), pmem_tx::Error> {
        sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let q = unsafe { &mut *self.state(sys) };
            if usize::from(q.len) >= N {
                return None;
            }
            let slot = (usize::from(q.first) + usize::from(q.len)) % N;
            q.slots[slot].write(message);
            q.len += 1;
            Some(())
        });
        Ok(())
    }

    /// Receives the oldest message; waits until there is one. **Errors**: none.
    pub fn receive(&self, sys: &Sys<'_, '_, S>) -> Result<T, pmem_tx::Error> {
        Ok(sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let q = unsafe { &mut *self.state(sys) };
            if q.len == 0 {
                return None;
            }
            let slot = usize::from(q.first) % N;
            q.first = ((slot + 1) % N) as u8;
            q.len -= 1;
            // SAFETY: it was sent.
            Some(unsafe { q.slots[slot].assume_init() })
        }))
    }
}

/// An event group.
pub struct Events<S> {
    pub(crate) at: At,
    _s: PhantomData<fn() -> S>,
}

impl<S> Object for Events<S> {
    type State = u32;
    unsafe fn begin(state: *mut u32) {
        // SAFETY: by the contract.
        unsafe { *state = 0 }
    }
}

impl<S: System> Events<S> {
    pub(crate) const fn at(at: At) -> Self {
        let _s = PhantomData;
        Events { at, _s }
    }
    #[inline(always)]
    fn flags(&self, sys: &Sys<'_, '_, S>) -> *mut u32 {
        sys.kernel.memory.wrapping_byte_add(self.at.offset).cast()
    }

    /// Sets flags. **Errors**: none.
    pub fn set(&self, sys: &Sys<'_, '_, S>, flags: u8) -> Result<(), pmem_tx::Error> {
        sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            unsafe { *self.flags(sys) |= u32::from(flags) };
            Some(())
        });
        Ok(())
    }

    /// Waits for flags, and clears them. Returns those that were set. **Errors**: none.
    pub fn wait(
        &self,
        sys: &Sys<'_, '_, S>,
        flags: u8,
        until: Until,
    ) -> Result<u8, pmem_tx::Error> {
        Ok(sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let all = unsafe { &mut *self.flags(sys) };
            let seen = *all as u8 & flags;
            let enough = match until {
                Until::Any => seen != 0,
                Until::All => seen == flags,
            };
            enough.then(|| {
                *all &= !u32::from(seen);
                seen
            })
        }))
    }
}

/// A mutex, and what it guards.
pub struct Mutex<S, T = ()> {
    at: At,
    _s: PhantomData<fn() -> (S, T)>,
}
impl<S, T> Clone for Mutex<S, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, T> Copy for Mutex<S, T> {}

impl<S, T> Object for Mutex<S, T> {
    /// Who has it, from 1.
    type State = u32;
    unsafe fn begin(state: *mut u32) {
        // SAFETY: by the contract.
        unsafe { *state = 0 }
    }
}

impl<S: System, T> Mutex<S, T> {
    pub(crate) const fn at(at: At) -> Self {
        let _s = PhantomData;
        Mutex { at, _s }
    }
    #[inline(always)]
    fn holder(&self, sys: &Sys<'_, '_, S>) -> *mut u32 {
        sys.kernel.memory.wrapping_byte_add(self.at.offset).cast()
    }
    pub(super) fn lock(&self, sys: &Sys<'_, '_, S>) {
        sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let holder = unsafe { &mut *self.holder(sys) };
            let free = *holder == 0;
            free.then(|| *holder = sys.me as u32 + 1)
        })
    }
    pub(super) fn unlock(&self, sys: &Sys<'_, '_, S>) {
        sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            unsafe { *self.holder(sys) = 0 };
            Some(())
        })
    }
    pub(super) fn data(&self, sys: &Sys<'_, '_, S>) -> RootOf<S, T> {
        Root::new(sys.kernel.memory.wrapping_byte_add(self.at.data).cast())
    }
}

/// A timer.
pub struct Timer<S> {
    pub(crate) at: At,
    period: u32,
    _s: PhantomData<fn() -> S>,
}

/// What of a timer is in the memory: when it is due; never, if it is not active.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Due {
    at: u64,
    period: u32,
}
const NEVER: u64 = u64::MAX;

impl<S> Object for Timer<S> {
    type State = Due;
    unsafe fn begin(state: *mut Due) {
        // SAFETY: by the contract.
        unsafe {
            *state = Due {
                at: NEVER,
                period: 0,
            }
        }
    }
    const TIMER: bool = true;
}

impl<S: System> Timer<S> {
    pub(crate) const fn at(at: At) -> Self {
        Timer {
            at,
            period: 0,
            _s: PhantomData,
        }
    }
    pub(crate) const fn periodic(self, period: u32) -> Self {
        Timer { period, ..self }
    }
    fn set(&self, sys: &Sys<'_, '_, S>, due: impl FnOnce() -> Due) {
        sys.kernel.section(|s| {
            // SAFETY: the object's part of the memory, in a section.
            unsafe { *due_of(sys, self.at) = due() };
            s.wake(TIME, sys.port);
        });
    }
    /// Starts it: it expires one period later. **Errors**: none.
    pub fn start(&self, sys: &Sys<'_, '_, S>) -> Result<(), pmem_tx::Error> {
        self.set(sys, || Due {
            at: sys.port.now() + u64::from(self.period),
            period: self.period,
        });
        Ok(())
    }
    /// Stops it. **Errors**: none.
    pub fn stop(&self, sys: &Sys<'_, '_, S>) -> Result<(), pmem_tx::Error> {
        self.set(sys, || Due {
            at: NEVER,
            period: 0,
        });
        Ok(())
    }
    /// Whether this timer has expired.
    pub const fn is(&self, expired: TimerId<S>) -> bool {
        self.at.number == expired.number
    }
}

/// Which timer has expired.
pub struct TimerId<S> {
    number: usize,
    _s: PhantomData<fn() -> S>,
}
impl<S> Clone for TimerId<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for TimerId<S> {}

fn due_of<S: System>(sys: &Sys<'_, '_, S>, timer: At) -> *mut Due {
    sys.kernel.memory.wrapping_byte_add(timer.offset).cast()
}

/// Waits until a timer expires, and says which. It expires again one period later.
/// **Errors**: none.
pub fn expired<S: System>(sys: &Sys<'_, '_, S>) -> Result<TimerId<S>, pmem_tx::Error> {
    let number = sys.wait(TIME, || {
        // SAFETY: the timers' part of the memory, in a section.
        let due = |t: &&At| unsafe { (*due_of(sys, **t)).at };
        let first = S::TIMERS.iter().min_by_key(due)?;
        let at = due(&first);
        if at > sys.port.now() {
            sys.port.set_timer((at != NEVER).then_some(at));
            return None;
        }
        // SAFETY: as above.
        let first_due = unsafe { &mut *due_of(sys, *first) };
        first_due.at += u64::from(first_due.period);
        Some(first.number)
    });
    let _s = PhantomData;
    Ok(TimerId { number, _s })
}
