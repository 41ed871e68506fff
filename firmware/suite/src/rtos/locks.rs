//! A mutex with data, which its holder locks again, in turns of several steps.
//!
//! ```text
//!   each thread, in each turn:  lock
//!                                 step 1   BOARD: n, me
//!                                   lock again
//!                                 step 2   BOARD: n + 1, nobody
//!                               give both back
//! ```
//!
//! Whoever is preempted or cut between the two steps has the mutex: the other thread never finds
//! its name on the board. After a cut each thread has ended as many turns as the mailbox says, or
//! one more.

use super::TOLD;
use super::boot::{Core, Fram, Here, STACK, Stack, run, tell, tick};
use crate::{Mapped, Scene, check, ok};
use nv_rtos::{Error, Thread};

const ROUNDS: u16 = 2;

nv_rtos::system! {
    /// What this scenario runs.
    Plan on Fram;
    table { bytes: 48, outbox_bytes: 0, seq_bits: 8 }
    objects {}
    shared {
        /// Turns of both, and who is between its two steps, from 1.
        BOARD: [u32; 2] = [0; 2];
    }
    threads {
        one(u32 = 0): 1;
        two(u32 = 0): 1;
    }
}

/// The argument of a step that looks at all of the turns has their number; that of the others this.
const GOES_ON: u32 = u32::MAX;

/// `me` is the thread's number, and its cell of the mailbox. The turn behind the last one looks. It
/// has the step of the others: the code of three does not fit into an MSP430.
fn writes(th: &mut Thread<Plan, u32>, turns: u32, me: u32) -> Result<(), Error> {
    th.each(0..turns + 1, [me, turns], |th, i, [me, turns]| {
        tell(me as u16, i);
        let all = if i == turns { turns } else { GOES_ON };
        let mut board = th.lock(&BOARD)?;
        let n = th.step((board.data(), [me, all]), |sys, mine, (mut board, [me, all])| {
            let scene = Here::anywhere();
            if all != GOES_ON {
                let n = board.get(sys)[0];
                check!(scene, *mine.get(sys) == 2 * all && (all..=2 * all).contains(&n));
                return Ok(n);
            }
            *mine.get_mut(sys)? += 1;
            let board = board.get_mut(sys)?;
            check!(scene, board[1] == 0);
            board[1] = me + 1;
            Ok(board[0])
        })?;
        if i == turns {
            return Ok(());
        }
        let again = th.lock(&BOARD)?;
        th.step((board.data(), [me, n]), |sys, mine, (mut board, [me, n])| {
            *mine.get_mut(sys)? += 1;
            let board = board.get_mut(sys)?;
            check!(Here::anywhere(), *board == [n, me + 1]);
            *board = [n + 1, 0];
            Ok(0)
        })?;
        drop(again);
        drop(board);
        if Here::anywhere().argument() == TOLD {
            tell(me as u16, i + 1);
        }
        Ok(())
    })
}

fn on_tick() {
    tick();
}

pub(super) fn locks<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region_as::<Fram>();
    let turns = scene.rounds(ROUNDS).into();
    let (kernel, mut threads) = ok!(scene, Plan::open(region));
    let (places, data) = ok!(scene, Plan::share(&mut threads));
    let mut stacks = [const { Stack::<STACK>::NEW }; 2];
    let mut port = Core::new(&mut stacks);
    Plan::spawn(
        &kernel,
        places,
        &data,
        &mut port,
        |th| writes(th, turns, 0),
        |th| writes(th, turns, 1),
    );
    run(scene, &kernel, port, on_tick);
    check!(scene, (0..2).all(|t| scene.read_cell(t) == turns as u16));
}
