//! An event group and notifications, from steps and from the timer's handler.
//!
//! ```text
//!   monitor                                      actor
//!   sets two flags         ---- FLAGS ---->      waits for both, and notifies
//!   waits for its answer   <- notification -
//!   the handler sets a flag and notifies ---->   in its last step: they are there
//! ```
//!
//! Each turn of a thread is one step. So after a cut each thread has done as many as the mailbox
//! says of it, or one more. What the handler has told the mailbox of is set, until it is seen.

use super::TOLD;
use super::boot::{Core, Fram, Here, Running, STACK, Stack, port, run, tell, tick};
use crate::{Mapped, Scene, check, ok};
use nv_rtos::{Error, Thread, Until, wait_notification, wait_notification_timeout};

/// The mailbox's cells: turns of each thread, and whether the handler has set its flags.
const SET: u16 = 0;
const SEEN: u16 = 1;
const FROM_HANDLER: u16 = 2;
const ROUNDS: u16 = 2;

/// Flags of the group, and of the threads.
const BOTH: u8 = 1 | 2;
const OF_HANDLER: u8 = 4;
const ANSWER: u8 = 0x80;

nv_rtos::system! {
    /// What this scenario runs.
    Plan on Fram;
    table { bytes: 32, outbox_bytes: 0, seq_bits: 8 }
    objects { FLAGS: Events; }
    threads {
        monitor(u32 = 0): 1;
        actor(u32 = 0): 1;
    }
    control { notify: true }
}

fn monitor(th: &mut Thread<Plan, u32>, turns: u32) -> Result<(), Error> {
    th.each_step(0..2 * turns, (), |sys, count, i, ()| {
        tell(SET, i);
        let scene = Here::anywhere();
        check!(scene, *count.get(sys) == i);
        *count.get_mut(sys)? = i + 1;
        if i % 2 == 0 {
            FLAGS.set(sys, BOTH)?;
            if scene.argument() == TOLD {
                tell(SET, i + 1);
            }
            return Ok(());
        }
        let got = wait_notification(sys, ANSWER, Until::All)?;
        check!(scene, got == ANSWER);
        Ok(())
    })?;
    tell(SET, 2 * turns);
    Ok(())
}

fn actor(th: &mut Thread<Plan, u32>, turns: u32) -> Result<(), Error> {
    th.each_step(0..turns, (), |sys, count, i, ()| {
        tell(SEEN, i);
        let scene = Here::anywhere();
        let got = FLAGS.wait(sys, BOTH, Until::All)?;
        check!(scene, got == BOTH && *count.get(sys) == i);
        // Committed, and the answer is not.
        let set = scene.read_cell(SET);
        check!(scene, set == (2 * i) as u16 || set == (2 * i + 1) as u16);
        *count.get_mut(sys)? = i + 1;
        Plan::monitor().notify(sys, ANSWER)
    })?;
    tell(SEEN, turns);
    th.step((), |sys, _, ()| {
        let scene = Here::anywhere();
        let told = scene.read_cell(FROM_HANDLER) != 0;
        let seen = FLAGS.wait_timeout(sys, OF_HANDLER | BOTH, Until::Any, 0)?;
        let noted = wait_notification_timeout(sys, OF_HANDLER, Until::Any, 0)?;
        check!(scene, seen.is_none_or(|seen| seen == OF_HANDLER));
        check!(scene, !told || seen.is_some() && noted.is_some());
        Ok(())
    })?;
    Ok(())
}

static RUNNING: Running<Plan> = Running::nothing();

fn on_tick() {
    tick();
    let scene = Here::anywhere();
    if let Some(kernel) = RUNNING.kernel() {
        let isr = kernel.isr(port());
        let set = FLAGS.set_from_isr(&isr, OF_HANDLER);
        let noted = Plan::actor().notify_from_isr(&isr, OF_HANDLER);
        check!(scene, set.is_ok() && noted.is_ok());
        scene.write_cell(FROM_HANDLER, 1);
    }
}

pub(super) fn signals<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region_as::<Fram>();
    let turns = scene.rounds(ROUNDS).into();
    let (kernel, mut threads) = ok!(scene, Plan::open(region));
    let (places, _) = ok!(scene, threads.share());
    let mut stacks = [const { Stack::<STACK>::NEW }; 2];
    let mut port = Core::new(&mut stacks);
    Plan::spawn(
        &kernel,
        places,
        &mut port,
        |th| monitor(th, turns),
        |th| actor(th, turns),
    );
    RUNNING.during(&kernel, || run(scene, &kernel, port, on_tick));
    check!(scene, scene.read_cell(SEEN) == turns as u16);
}
