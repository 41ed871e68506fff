//! Messages from the timer's handler, in the queue that a thread sends to.
//!
//! ```text
//!   sender: 0, 1, 2 ...   --> INPUT: 4 slots -->  receiver: each thread's in its order
//!   handler: 1, 2 ...     -->                     none that the mailbox knows of is lost
//! ```
//!
//! The handler tells the mailbox what it has sent. A cut between the two loses the number: the
//! next handler sends it again.
//!
//! A slot is free again when the receiver's step has committed, and the step waits for a message of
//! the sender. So the handler leaves one slot to the sender, and one to a number that it sends
//! twice.

use super::TOLD;
use super::boot::{Core, Fram, Here, Running, STACK, Stack, port, run, tell, tick};
use crate::{Mapped, Scene, check, ok};
use nv_rtos::{Error, Thread};

/// The mailbox's cells: messages that were sent and received, the handler's last one, and the last
/// one of those that is received.
const SENT: u16 = 0;
const RECEIVED: u16 = 1;
const POSTED: u16 = 2;
const SEEN: u16 = 3;
const ROUNDS: u16 = 3;
/// What the board says of its energy.
const ENERGY: u32 = 1234;

nv_rtos::system! {
    /// What this scenario runs.
    Plan on Fram;
    table { bytes: 32, outbox_bytes: 0, seq_bits: 8 }
    objects { INPUT: Queue<[u16; 3], 4>; }
    threads {
        sender(u32 = 0): 1;
        receiver([u16; 2] = [0; 2]): 1;
    }
}

/// A message: who sends it, its number, and that inverted.
fn message(from_handler: bool, n: u16) -> [u16; 3] {
    [from_handler.into(), n, !n]
}

/// What was received is the next one: for the handler, or the last one again.
fn received(last: &mut [u16; 2], [who, n, not]: [u16; 3]) {
    let scene = Here::anywhere();
    check!(scene, who < 2 && not == !n);
    if who == 0 {
        check!(scene, n == last[0]);
        last[0] = n.wrapping_add(1);
    } else {
        check!(scene, n == last[1] || n == last[1].wrapping_add(1));
        last[1] = n;
    }
}

fn sender(th: &mut Thread<Plan, u32>, turns: u32) -> Result<(), Error> {
    th.each_step(0..turns, (), |sys, count, i, ()| {
        tell(SENT, i);
        let scene = Here::anywhere();
        check!(scene, *count.get(sys) == i);
        check!(scene, nv_rtos::energy(sys) == Some(ENERGY));
        *count.get_mut(sys)? = i + 1;
        INPUT.send(sys, message(false, i as u16))?;
        if scene.argument() == TOLD {
            tell(SENT, i + 1);
        }
        Ok(())
    })?;
    tell(SENT, turns);
    Ok(())
}

/// The turn behind the last one takes what is left.
fn receiver(th: &mut Thread<Plan, [u16; 2]>, turns: u32) -> Result<(), Error> {
    th.each_step(0..turns + 1, turns, |sys, last, i, turns| {
        tell(RECEIVED, i);
        let scene = Here::anywhere();
        let told = scene.read_cell(POSTED);
        scene.write_cell(SEEN, last.get(sys)[1]);
        if i == turns {
            while let Some(message) = INPUT.try_receive(sys)? {
                check!(scene, message[0] == 1);
                received(last.get_mut(sys)?, message);
            }
            // One may have been sent that nobody was told of.
            check!(scene, last.get(sys)[1].wrapping_sub(told) < 0x8000);
            return Ok(());
        }
        loop {
            let message = INPUT.receive(sys)?;
            received(last.get_mut(sys)?, message);
            if message[0] == 0 {
                break;
            }
        }
        // It was committed.
        check!(scene, last.get(sys)[0] == i as u16 + 1);
        check!(scene, scene.read_cell(SENT).wrapping_sub(i as u16) < 7);
        Ok(())
    })
}

static RUNNING: Running<Plan> = Running::nothing();

fn on_tick() {
    tick();
    let scene = Here::anywhere();
    if let Some(kernel) = RUNNING.kernel() {
        let n = scene.read_cell(POSTED).wrapping_add(1);
        // However often the timer interrupts, the sender finds a slot.
        if n.wrapping_sub(scene.read_cell(SEEN)) > 2 {
            return;
        }
        match INPUT.send_from_isr(&kernel.isr(port()), message(true, n)) {
            Ok(true) => scene.write_cell(POSTED, n),
            Ok(false) => {}
            Err(_) => check!(scene, false),
        }
    }
}

pub(super) fn posts<M: Mapped>(scene: &mut Scene<'_, M>) {
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
        |th| sender(th, turns),
        |th| receiver(th, turns),
    );
    let port = port.energy(|| Some(ENERGY));
    RUNNING.during(&kernel, || run(scene, &kernel, port, on_tick));
    check!(scene, scene.read_cell(RECEIVED) == turns as u16);
}
