//! Messages from interrupts' handlers.
//!
//! ```text
//!  handler, one section                     medium
//!    1 an empty slot that nobody reserved
//!    2 the message                          slot 3 <- m
//!    3 fence                                             cut here: the slot is empty
//!    4 the slot's word, settled             full 17      <- sent
//!    5 the RAM: slot 3 after the last one; waiting threads are ready
//! ```
//!
//! A settled word carries no number, so it waits for no commit, and no recovery reverts it. Its
//! ticket is the queue's next one, as that of a commit in a section of its own would be.

use crate::error::code;
use crate::kernel::{FULL, Isr, State, abort, append};
use crate::ram::Memory;
use crate::system::System;
use nv_replay::nvmem::{Plain, planted};
use nv_replay::{Error, pmem_tx};

impl<S: System> State<'_, S> {
    /// Appends the message of an empty slot to its queue, at once.
    ///
    /// **Errors**: the slot's word is damaged. Nothing has changed then.
    fn post(&mut self, object: u8, slot: u8) -> Result<(), pmem_tx::Error> {
        let Some(&mut o) = self.object(object) else {
            return Ok(());
        };
        let word = o.word + u16::from(slot);
        let stored = self.store.put_settled(word, FULL | o.state);
        stored.map_err(|_| abort(code::DAMAGED))?;
        let (_, objects, slots) = self.ram.parts();
        let Some(o) = objects.get_mut(usize::from(object)) else {
            return Ok(());
        };
        let ticket = o.state;
        append(o, slots, slot);
        if planted!("nv-rtos/post-keeps-the-ticket") {
            o.state = ticket;
        }
        o.sends = o.sends.wrapping_sub(1);
        if !planted!("nv-rtos/posted-slot-stays-free") {
            o.free &= o.free.wrapping_sub(1);
        }
        Ok(())
    }
}

impl<S: System> Isr<'_, '_, S> {
    // INVARIANT "A message before its word": the slot's word calls a message full after the message
    // is on the medium: after a commit's fence (`Queue::send`), or that of a handler.
    // Noticed by: planted `post-without-a-fence`.
    /// Sends a message at once, wakes the threads that wait for the queue, and picks the next
    /// thread. `at` is where the message of a slot lies. Returns whether there was a slot for it.
    pub(crate) fn send<T: Plain>(
        &self,
        object: u8,
        at: impl FnOnce(u8) -> u32,
        message: &T,
    ) -> Result<bool, Error> {
        let sent = self.kernel.section(|s| {
            let Some(slot) = s.free_slot(object) else {
                return Ok(false);
            };
            s.store.write_slot(at(slot), message);
            if !planted!("nv-rtos/post-without-a-fence") {
                s.store.fence();
            }
            s.post(object, slot)?;
            s.wake(object);
            s.reschedule(self.port);
            Ok::<_, pmem_tx::Error>(true)
        });
        Ok(sent?)
    }
}
