// Three threads and an event group: a monitor sets two flags again and again, and two actors wait
// for one each, read the time, and write 200 bytes.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    pool { journal_entries: 8, journal_bytes: 256, seq_bits: SEQ }
    objects {
        FLAGS: Events;
        /// The actors have seen the last flags.
        READY: Semaphore = (2, 2);
    }
    threads {
        monitor(u32 = 0): 1;
        one([u32; 51] = [0; 51]): 2;
        two([u32; 51] = [0; 51]): 2;
    }
}

fn monitor(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..ROUNDS, (), |sys, rounds, _, ()| {
        READY.take(sys)?;
        READY.take(sys)?;
        *rounds.get_mut(sys)? += 1;
        FLAGS.set(sys, 1 | 2)
    })
}

/// What an actor does at each event.
macro_rules! act {
    ($th:expr, $flag:literal) => {
        $th.each_step(0..ROUNDS, (), |sys, state, i, ()| {
            FLAGS.wait(sys, $flag, Until::All)?;
            let time = now(sys) as u32;
            let state = state.get_mut(sys)?;
            assert!(time >= state[0]);
            state[0] = time;
            for (k, word) in state[1..].iter_mut().enumerate() {
                assert!(*word == 0 || *word == (i - 1) * 50 + k as u32 + $flag);
                *word = i * 50 + k as u32 + $flag;
            }
            READY.give(sys)
        })
    };
}

fn one(th: &mut Thread<Plan, [u32; 51]>) -> Result<(), Error> {
    act!(th, 1)
}
fn two(th: &mut Thread<Plan, [u32; 51]>) -> Result<(), Error> {
    act!(th, 2)
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: monitor, one, two);
}
