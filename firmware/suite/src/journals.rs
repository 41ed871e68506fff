//! Threads that wait in the middle of a step, and how long steps and restarts are measured to be.
//!
//! - `journals`: four threads change as much as their journals hold, and then wait for what never
//!   comes. When all of them wait, the boot ends: to the rig that is the power cut. The next boot
//!   finds four full journals. Asked for fewer rounds, only so many threads change something.
//! - `known_step`: a step makes a loop of as many turns as there are rounds, waits for a semaphore,
//!   and commits. Another thread makes a longer loop, outside of any step, and gives the semaphore.
//!   So the longest step takes two instructions more for each round. The other one does not count.

use crate::{Group, Mapped, Scenario};

/// The name of the scenario with journals, and its threads.
pub const JOURNALS: &str = "journals";
/// See [`JOURNALS`].
pub const THREADS: u16 = 4;
/// What each thread has: parts, and words of each. Its journal holds as many entries, and as many
/// words of old content.
pub const PARTS: usize = 8;
/// See [`PARTS`].
pub const WORDS: usize = 3;
/// The name of the scenario with a step of a known length.
pub const KNOWN_STEP: &str = "known_step";

/// The scenarios of the image `program-journals`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "program-journals",
            primitive: "nv-rtos",
            scenarios: &[
                Scenario::whole(JOURNALS, BYTES, on::journals),
                Scenario::whole(KNOWN_STEP, BYTES, on::known_step),
            ],
        }
    }
}

const BYTES: usize = 2048;

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
mod on {
    use super::{PARTS, THREADS, WORDS};
    use crate::abi::section;
    use crate::{Mapped, Scene, check, machine, ok};
    use core::arch::asm;
    use example_programs::support::{Core, Fram, SEQ_BITS, STACK, Stack};
    use nv_rtos::{Error, Room, Thread};

    type Here = Scene<'static, machine::Model>;

    type Data = [[u32; WORDS]; PARTS];
    const NOTHING: Data = [[0; WORDS]; PARTS];
    const FULL: pmem_tx::Config = pmem_tx::Config {
        journal_entries: PARTS as u16,
        journal_bytes: (PARTS * WORDS * 4) as u32,
        seq_bits: SEQ_BITS,
    };

    nv_rtos::system! {
        /// Threads that wait for what never comes.
        Plan on Fram;
        table { bytes: 48, outbox_bytes: 0, seq_bits: SEQ_BITS }
        pool {
            journal_entries: FULL.journal_entries,
            journal_bytes: FULL.journal_bytes,
            seq_bits: FULL.seq_bits,
        }
        objects {
            NEVER: Semaphore = (0, 1);
        }
        threads {
            first(Data = NOTHING): 1;
            second(Data = NOTHING): 1;
            third(Data = NOTHING): 1;
            fourth(Data = NOTHING): 1;
        }
    }

    /// Changes all that the journal has room for, or nothing, and waits.
    fn waits(th: &mut Thread<Plan, Data>, number: u16) -> Result<(), Error> {
        let changes = number < Here::anywhere().rounds(THREADS);
        th.each_step(0..1, changes, |sys, data, _, changes| {
            if changes {
                let mut data = data.slot(sys);
                for i in 0..PARTS {
                    data.at_mut(i)?[0] += 1;
                }
            }
            NEVER.take(sys)
        })
    }

    pub(super) fn journals<M: Mapped>(scene: &mut Scene<'_, M>) {
        let region = scene.region_as::<Fram>();
        let mut room = Room::new();
        let (kernel, threads) = ok!(scene, Plan::open_in(&mut room, region));
        let (places, _) = ok!(scene, threads.share());
        let mut stacks = [const { Stack::<STACK>::UNINIT }; THREADS as usize];
        let mut port = Core::new(&mut stacks);
        Plan::spawn(
            kernel,
            places,
            &mut port,
            |th| waits(th, 0),
            |th| waits(th, 1),
            |th| waits(th, 2),
            |th| waits(th, 3),
        );
        scene.next_section(section::PROGRAM);
        // All wait: the end, in the middle of their steps.
        port.run_idle(kernel, None, |_| machine::end(0));
        check!(scene, false);
    }

    mod two {
        use super::{Fram, SEQ_BITS};

        nv_rtos::system! {
            /// A step that waits, and a thread that lets it wait.
            pub(super) Two on Fram;
            table { bytes: 48, outbox_bytes: 0, seq_bits: SEQ_BITS }
            objects {
                GO: Semaphore = (0, 1);
            }
            threads {
                steps(u32 = 0): 2;
                gives(u32 = 0): 1;
            }
        }
    }
    use two::{GO, Two};

    /// A loop of so many turns, of two instructions each.
    #[inline(always)]
    fn turns(n: u32) {
        if n > 0 {
            // SAFETY: counts down in a register.
            unsafe {
                asm!("1: subs {0}, {0}, #1", "bne 1b", inout(reg) n => _, options(nomem, nostack))
            }
        }
    }

    fn steps(th: &mut Thread<Two, u32>) -> Result<(), Error> {
        th.each_step(0..1, (), |sys, _, _, ()| {
            turns(Here::anywhere().rounds(10).into());
            GO.take(sys)
        })
    }

    fn gives(th: &mut Thread<Two, u32>) -> Result<(), Error> {
        turns(20_000);
        th.each_step(0..1, (), |sys, _, _, ()| GO.give(sys))
    }

    pub(super) fn known_step<M: Mapped>(scene: &mut Scene<'_, M>) {
        let region = scene.region_as::<Fram>();
        let mut room = Room::new();
        let (kernel, threads) = ok!(scene, Two::open_in(&mut room, region));
        let (places, _) = ok!(scene, threads.share());
        let mut stacks = [const { Stack::<STACK>::UNINIT }; 2];
        let mut port = Core::new(&mut stacks);
        Two::spawn(kernel, places, &mut port, steps, gives);
        check!(scene, port.run(kernel, None));
        check!(scene, (0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
    }
}

/// It is measured on one machine.
#[cfg(not(all(target_os = "none", target_abi = "eabihf")))]
mod on {
    pub(super) use crate::programs::none::{none as journals, none as known_step};
}
