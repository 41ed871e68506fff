// Data behind mutexes. Wherever the power is cut, no other thread changes the data between two
// steps under one lock.

/// The last value that somebody left, in an object.
#[derive(Persist)]
#[repr(C)]
struct Mailbox<'p> {
    letter: Option<PBox<'p, u32, <Fram as Model>::Unit>>,
}

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 128, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        GO: Semaphore = (0, 2);
        LATER: Semaphore = (0, 2);
    }
    shared {
        /// How many turns, and who is between its two steps, from 1.
        BOARD: [u32; 2] = [0; 2];
        /// The turns of each thread.
        LOG: [u16; 3] = [0; 3];
        MAILBOX: Mailbox<'static> = Mailbox { letter: None };
    }
    threads {
        low(u32 = 0): 1;
        high(u32 = 0): 2;
        last(u32 = 0): 3;
        least(u32 = 0): 0;
    }
}

const LOW: u32 = 0;
const HIGH: u32 = 1;

/// Two steps under the lock. `low` comes first: `high` locks behind it, and waits with the lock for
/// what `low` does behind its own.
fn turn(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, me: u32, i: u32) -> Result<(), Error> {
    if me == HIGH {
        th.step(0, |sys, _, _| GO.take(sys))?;
    }
    let mut board = th.lock(&BOARD)?;
    let got = th.step((board.data(), me), |sys, n, (mut board, me)| {
        *n.get_mut(sys)? += 1;
        if me == LOW {
            GO.give(sys)?;
        }
        let board = board.get_mut(sys)?;
        assert_eq!(board[1], 0, "another thread is between its two steps");
        board[1] = me + 1;
        Ok(board[0])
    })?;
    result(w, me, i, got);
    th.delay(1)?;
    let mut log = th.lock(&LOG)?;
    th.step((board.data(), log.data(), [me, got]), |sys, _, (mut board, mut log, [me, got])| {
        if me == HIGH {
            LATER.take(sys)?;
        }
        let board = board.get_mut(sys)?;
        assert_eq!(*board, [got, me + 1], "another thread was in between");
        *board = [got + 1, 0];
        log.get_mut(sys)?[me as usize] += 1;
        Ok(())
    })?;
    // Who has the board puts a letter on the mailbox, and frees the one before.
    let mut mailbox = th.lock(&MAILBOX)?;
    th.step((mailbox.data(), got), |sys, _, (mut mailbox, got)| {
        let new = PBox::new(sys, got)?;
        let old = mailbox.get_mut(sys)?.letter.replace(new);
        if let Some(old) = old {
            assert_eq!(*old.get(sys) + 1, got);
            old.free(sys)?;
        }
        Ok(())
    })?;
    drop((board, log, mailbox));
    if me == LOW {
        th.step(1, |sys, _, _| LATER.give(sys))?;
    }
    Ok(())
}

fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.each_with(&mut &*w, 0..2, (), |th, w, i, ()| turn(th, w, LOW, i))
}

/// The same without a loop.
fn high(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    turn(th, w, HIGH, 0)?;
    turn(th, w, HIGH, 1)
}

fn last(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    // A step that fails has changed nothing.
    let mut log = th.lock(&LOG)?;
    let failed = th.step((log.data(), ()), |sys, _, (mut log, ())| {
        log.get_mut(sys)?[2] += 1;
        Err::<(), _>(sys.abort(7))
    });
    assert_eq!(failed.map_err(|e| e.error), Err(Error::Aborted(7)));
    drop(log);
    // The lock's last commit, and a wait behind it: later lives wait there again, without the lock,
    // while others have the data.
    let mut board = th.lock(&BOARD)?;
    th.step((board.data(), 0), |sys, _, (board, _)| Ok(board.get(sys)[0]))?;
    th.join(Plan::least())?;
    drop(board);
    th.join(Plan::low())?;
    th.join(Plan::high())?;
    let (mut board, mut log) = (th.lock(&BOARD)?, th.lock(&LOG)?);
    let all = th
        .step((board.data(), log.data()), |sys, _, (board, log)| {
            let ([n, inside], [low, high, last]) = (*board.get(sys), *log.get(sys));
            Ok([n, inside, low.into(), high.into(), last.into()])
        })?;
    assert_eq!(all, [4, 0, 2, 2, 0]);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, data) = Plan::share(&mut threads).unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        machine.start(t, &kernel, |kit| {
            let low = |th: &mut Thread<Plan, u32>| low(th, w);
            Plan::spawn(&kernel, places, &data, kit, low, |th| high(th, w), last, |_| Ok(()));
        });
    });
    (0..4).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert_eq!(results(w), [0, 1, 2, 3]);
}
