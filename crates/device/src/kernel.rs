//! Devices in the steps of a thread of `nv-rtos`.
//!
//! ```text
//! th.step_with(&mut set, …)   body: step.inner() has the calls of the kernel's objects,
//!                                   step.token() the devices
//!                               |                          |
//!                               | Ok                       | error
//!                               v                          v
//!                             join                       undone, of both
//!                              1 stage each changed context with n, a number of this thread
//!                              2 the kernel's section: its words with n, the commit store
//!                              3 settle each, and the device follows its context
//! ```
//!
//! One number of one thread commits all of it. So a set belongs to one thread, and its contexts are
//! opened with the number of that thread. Other threads send it a message to use a device. Step 1
//! is outside of the kernel's section, so a bus does not hold up interrupts.

use crate::open::Committed;
use crate::set::{Devices, OfSet, Set};
use nv_replay::nvmem::{Model, NumberOwner, planted};
use nv_replay::pmem_tx::Width;
use nv_replay::{Commit, Committed as Done, Error, OpenError, ThreadRoots, Threads, Token};
use nv_rtos::{Joiner, System, ThreadId, With};

impl<'o> Committed<'o> {
    // INVARIANT "The thread that commits": the contexts of the devices of a thread are settled at
    // the boot by the number of that thread.
    // Noticed by: planted `number-of-another-thread`.

    /// What the steps of a thread of a kernel have committed, for the contexts of its devices: when
    /// the system is open, and before its threads' places are shared out. A [`Set`] of these
    /// devices takes part in `th.step_with(&mut set, …)` of that thread only.
    ///
    /// **Power loss**: writes nothing. **Cost**: reads the headers of the thread's records.
    /// **Errors**: the thread's table is damaged.
    ///
    /// ```
    /// # use core::convert::Infallible;
    /// use nv_device::nv_rtos::host::Masked;
    /// use nv_device::nv_rtos::{Error, Thread, wait_until};
    /// use nv_device::nvmem::{InOrder32, Region};
    /// use nv_device::{Committed, Devices, Events, Members, Restore, Ring, Set, Staged};
    /// use nv_device::{StagedDevice, open, within};
    /// # use nv_device::nv_replay::pmem_tx::{Preempted, Section};
    /// # struct Lamp;
    /// # impl Restore for Lamp {
    /// #     type Context = u8;
    /// #     type Parts = ();
    /// #     type Error = Infallible;
    /// #     fn restore(_: &mut (), _: &u8) -> Result<Self, Infallible> { Ok(Lamp) }
    /// # }
    ///
    /// type Fram = Preempted<InOrder32, Masked>;   // on a device: the section of the machine
    /// nv_rtos::system! {
    ///     Node on Fram;
    ///     table { bytes: 64, outbox_bytes: 0, seq_bits: 12 }
    ///     objects { PRESSES: Queue<u32, 4>; }
    ///     threads {
    ///         panel(u32 = 0): 2;
    ///         radio(u32 = 0): 1;
    ///     }
    /// }
    ///
    /// struct Panel<'a, 'm> {
    ///     lamp: StagedDevice<'m, Lamp, Fram>,
    ///     buttons: &'a Events<'m, 8, Fram>,       // the interrupt has it, too
    /// }
    /// impl Devices for Panel<'_, '_> {
    ///     fn list(&self) -> impl Members {
    ///         (&self.lamp, within(|f| Masked::with(|| f(self.buttons))))
    ///     }
    /// }
    ///
    /// fn panel(th: &mut Thread<Node, u32>, set: &mut Set<Panel>) -> Result<(), Error> {
    ///     th.each_step_with(set, 0..9, (), |step, presses, _, ()| {
    ///         let panel = step.token();
    ///         let take = || Ok(Masked::with(|| panel.buttons.take(step))?);
    ///         let event = wait_until(&step.inner(), take)?;    // the interrupt wakes this thread
    ///         *presses.get_mut(step)? += 1;
    ///         panel.lamp.change(step, |lit| *lit ^= 1)?;
    ///         PRESSES.send(&step.inner(), event.value)         // all of it with one commit
    ///     })
    /// }
    ///
    /// fn boot(fram: Region<'_, Fram>) -> Result<(), Box<dyn std::error::Error>> {
    ///     let (contexts, rest) = fram.split_at(256).map_err(|(e, _)| e)?;
    ///     let (kernel, mut threads) = Node::open(rest)?;
    ///     let committed = Committed::of_thread(&threads, Node::panel())?;
    ///     let (lit, buttons) = open::<(Staged<u8>, Ring<8>), _>(contexts, committed, (0, ()))?;
    ///     let lamp = StagedDevice::eager(lit, ())?;
    ///     let mut set = Set::new(Panel { lamp, buttons: &buttons });
    ///     let (places, _) = threads.share()?;
    ///     // Node::spawn(&kernel, places, machine, |th| panel(th, &mut set), radio);
    ///     // The interrupt: Masked::with(|| buttons.post(3)), and then
    ///     // Node::panel().wake_from_isr(&kernel.isr(port)).
    /// #   let _ = (kernel, places, &mut set, panel);
    ///     Ok(())
    /// }
    /// # let mut fram = [const { core::mem::MaybeUninit::new(0u64) }; 512];
    /// # boot(Region::new(&mut fram))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_thread<S: System, T: ThreadRoots>(
        threads: &'o Threads<'_, T, S::Model>,
        thread: ThreadId<S>,
    ) -> Result<Self, OpenError>
    where
        <S::Model as Model>::Unit: Width,
    {
        let mut number = thread.number();
        if planted!("nv-device/number-of-another-thread") {
            number += 1;
        }
        Ok(Committed::of(threads.last_committed(number)?, &S::TABLE))
    }
}

impl<T: Devices, M: Model> Joiner<M> for Set<T> {
    #[inline(always)]
    fn join_by<'c>(
        &self,
        commit: Commit<'c, M>,
        store: impl FnOnce(Commit<'c, M>) -> Result<Done<'c>, Error>,
    ) -> Result<Done<'c>, Error> {
        Set::join_by(self, commit, store)
    }

    fn undone(&self) {
        self.step_undone(&self.list())
    }

    fn owner(&self) -> Option<NumberOwner> {
        Token::<M>::owner(self)
    }
}

impl<S: System, T> OfSet for With<'_, '_, '_, S, Set<T>> {
    type Devices = T;
    #[inline(always)]
    fn set(&self) -> &Set<T> {
        self
    }
}
