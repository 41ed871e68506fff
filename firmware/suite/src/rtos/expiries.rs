//! Software timers, and their daemon.
//!
//! ```text
//!   user    starts both; then ticks, as a handler does, until the daemon has ended
//!   TICK    periodic, 2     2     4   6 ...
//!   ONCE    one-shot, 3       3
//!   daemon  handles each expiry in one step, in the order of their deadlines; stops TICK
//! ```
//!
//! So time goes on without any interrupt, and faster with one. After a cut the daemon has handled
//! as many expiries as the mailbox says, or one more, each once.

use super::TOLD;
use super::boot::{Core, Fram, Here, STACK, Stack, run, tell, tick};
use crate::{Mapped, Scene, check, ok};
use core::cell::Cell;
use nv_rtos::{Error, Thread, now};

/// The mailbox's cell: expiries that are handled.
const HANDLED: u16 = 0;
const ROUNDS: u16 = 3;

nv_rtos::system! {
    /// What this scenario runs.
    Plan on Fram;
    table { bytes: 32, outbox_bytes: 0, seq_bits: 8 }
    objects {
        TICK: Timer = periodic(2);
        ONCE: Timer = one_shot(3);
    }
    threads {
        user([u32; 2] = [0; 2]): 1;
        daemon([u32; 2] = [0; 2]): 2;
    }
}

/// Its steps are of one type with those of the daemon: the code of two does not fit into an MSP430.
fn user(th: &mut Thread<Plan, [u32; 2]>, over: &Cell<bool>) -> Result<(), Error> {
    th.each_step(0..1, 0, |sys, _, _, _| {
        TICK.start(sys)?;
        ONCE.start(sys)
    })?;
    while !over.get() {
        tick();
    }
    Ok(())
}

fn daemon(th: &mut Thread<Plan, [u32; 2]>, turns: u32, over: &Cell<bool>) -> Result<(), Error> {
    th.each_step(0..turns, turns, |sys, state, i, turns| {
        tell(HANDLED, i);
        let scene = Here::anywhere();
        let timer = nv_rtos::expired(sys)?;
        check!(scene, TICK.is(timer) == (i != 1) && ONCE.is(timer) == (i == 1));
        let time = now(sys) as u32;
        let [count, latest] = state.get_mut(sys)?;
        check!(scene, *count == i && time >= *latest);
        (*count, *latest) = (i + 1, time);
        check!(scene, TICK.is_active(sys) && (ONCE.is_active(sys) == (i == 0)));
        if i + 1 == turns {
            TICK.stop(sys)?;
            check!(scene, !TICK.is_active(sys));
        }
        if scene.argument() == TOLD {
            tell(HANDLED, i + 1);
        }
        Ok(())
    })?;
    tell(HANDLED, turns);
    over.set(true);
    Ok(())
}

fn on_tick() {
    tick();
}

pub(super) fn expiries<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region_as::<Fram>();
    let turns = scene.rounds(ROUNDS).into();
    let (kernel, mut threads) = ok!(scene, Plan::open(region));
    let (places, _) = ok!(scene, threads.share());
    let mut stacks = [const { Stack::<STACK>::NEW }; 2];
    let mut port = Core::new(&mut stacks);
    let over = Cell::new(false);
    Plan::spawn(
        &kernel,
        places,
        &mut port,
        |th| user(th, &over),
        |th| daemon(th, turns, &over),
    );
    run(scene, &kernel, port, on_tick);
    check!(scene, scene.read_cell(HANDLED) == turns as u16);
}
