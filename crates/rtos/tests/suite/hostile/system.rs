//! A system with each kind of object, and what is tried with any bytes as its region. Its threads
//! run one after the other on the host's stack, and never wait.
//!
//! The fuzz target `open_kernel` uses this file, too.

use nv_rtos::nvmem::{InOrder16, InOrder32, Region};
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::{
    Error, Kernel, OpenError, Port, Spawn, System, Thread, Until, wait_notification_timeout,
};
use std::mem::MaybeUninit;

/// Bytes of a region.
pub const BYTES: usize = 1536;

/// Turns of each thread, if none fails.
pub const TURNS: u32 = 4;

pub type Words = Vec<MaybeUninit<u64>>;

/// One thread runs at a time, and no handler.
pub enum Alone {}
// SAFETY: nothing preempts anything.
unsafe impl Section for Alone {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Runs each thread to its end when it is made.
pub struct Direct;
// SAFETY: its functions do nothing.
unsafe impl Port for Direct {
    fn now(&self) -> u64 {
        3
    }
    fn switch(&self, _to: Option<usize>) {}
    fn set_timer(&self, _at: Option<u64>) {}
}
impl<'s> Spawn<'s> for Direct {
    fn spawn(&mut self, thread: usize, _name: &'static str, body: impl FnOnce(&dyn Port) + 's) {
        // That of the reserved place would wait for ever where it ends.
        if thread < 2 {
            body(&Direct)
        }
    }
}

/// The system on a medium, and what runs on it.
macro_rules! on {
    ($medium:ident = $model:ty, $seq:literal) => {
        pub mod $medium {
            use super::*;
            type Fram = Preempted<$model, Alone>;

            nv_rtos::system! {
                /// One object of each kind.
                pub Plan on Fram;
                table { bytes: 96, outbox_bytes: 0, seq_bits: $seq }
                pool { journal_entries: 4, journal_bytes: 32, seq_bits: 16 }
                objects {
                    COUNT: Semaphore = (1, 9);
                    LETTERS: Queue<[bool; 4], 3>;
                    FLAGS: Events;
                    LOCK: Mutex;
                    TICK: Timer = periodic(2);
                    WISHES: [Queue<bool, 2>; 2] => Wish;
                }
                shared {
                    BOARD: [bool; 2] = [true; 2];
                }
                threads {
                    writer(u32 = 7): 1;
                    reader([bool; 4] = [false; 4]): 2;
                }
                reserve {
                    worker(bool = false, [bool; 2]): 1;
                }
                control { notify: true, change: true, lives: 2, ticks: 1000 }
            }

            fn writer(th: &mut Thread<Plan, u32>, until: u32) -> Result<(), Error> {
                let time = th.now()?;
                th.each_step(0..TURNS, (until, time), |sys, root, i, (until, time)| {
                    if i == until {
                        return Err(sys.abort(1));
                    }
                    let root = root.get_mut(sys)?;
                    *root = root.wrapping_add(i).wrapping_add(time as u32);
                    COUNT.try_give(sys)?;
                    LETTERS.try_send(sys, [i % 2 == 0; 4])?;
                    match i {
                        0 => TICK.start(sys)?,
                        2 => {
                            let wish = WISHES.try_make(sys)?;
                            if let Some(wish) = wish {
                                WISHES.at(wish).try_send(sys, true)?;
                            }
                            Plan::worker().try_spawn(sys, [true; 2])?;
                            Plan::reader().set_priority(sys, 3)?;
                        }
                        1 => Plan::reader().notify(sys, 0x81)?,
                        _ => Plan::reader().set_priority(sys, 4)?,
                    }
                    FLAGS.set(sys, 1 << (i % 8))
                })?;
                th.step((), |sys, _, ()| COUNT.try_take(sys))?;
                Ok(())
            }

            fn reader(th: &mut Thread<Plan, [bool; 4]>, until: u32) -> Result<(), Error> {
                th.each_step(0..TURNS, until, |sys, root, i, until| {
                    if i + 1 == until {
                        return Err(sys.abort(1));
                    }
                    if let Some(letter) = LETTERS.try_receive(sys)? {
                        *root.get_mut(sys)? = letter;
                    }
                    FLAGS.wait_timeout(sys, 0x55, Until::Any, 0)?;
                    wait_notification_timeout(sys, 1, Until::Any, 0)?;
                    TICK.is_active(sys);
                    Ok(())
                })
            }

            /// Opens the region, and runs both threads until their turn `until` fails. The first
            /// one `locks` mutexes: on damaged memory the other one could have them, and the first
            /// one would wait for ever.
            pub fn run(words: &mut Words, until: u32, locks: bool) -> Result<(), OpenError> {
                let (kernel, mut threads) = Plan::open(Region::new(words))?;
                let (places, data) = Plan::share(&mut threads)?;
                let first = |th: &mut Thread<Plan, u32>| {
                    if !locks {
                        return writer(th, until);
                    }
                    let (_plain, mut board) = (th.lock(&LOCK)?, th.lock(&BOARD)?);
                    th.step(board.data(), |sys, _, mut board| {
                        let board = board.get_mut(sys)?;
                        board[0] = !board[1];
                        Ok(())
                    })?;
                    writer(th, until)
                };
                Plan::spawn(
                    &kernel,
                    places,
                    &data,
                    &mut Direct,
                    first,
                    |th| reader(th, until),
                    |th, [one, _]| {
                        let old = th.step(one, |sys, root, one| {
                            Ok(core::mem::replace(root.get_mut(sys)?, one))
                        });
                        old.map(drop).map_err(Error::from)
                    },
                );
                has_ended(&kernel);
                Ok(())
            }
        }
    };
}
on!(in_order_32 = InOrder32, 6);
on!(in_order_16 = InOrder16, 4);

fn has_ended<S: System>(kernel: &Kernel<'_, S>) {
    assert!((0..2).all(|t| kernel.ended(t).is_some()));
}

/// Opens and runs a system: `in_order_32::run`, or that of the other medium.
pub type Run = fn(&mut Words, u32, bool) -> Result<(), OpenError>;

/// A buffer with this image.
pub fn words(image: &[u8]) -> Words {
    let words = image.as_chunks::<8>().0.iter();
    words
        .map(|w| MaybeUninit::new(u64::from_ne_bytes(*w)))
        .collect()
}

/// The image in a buffer.
pub fn bytes(words: &Words) -> Vec<u8> {
    // SAFETY: `words` has initialised it, and whole units were stored; padding of roots is zero.
    let words = words.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

/// An image after so many turns of the first thread, and one less of the other.
pub fn image(run: Run, until: u32) -> Vec<u8> {
    let mut words = words(&[0; BYTES]);
    run(&mut words, until, true).expect("a blank region is formatted");
    bytes(&words)
}

/// Opens any bytes, runs both threads, and opens what they have left. Whether they were opened.
pub fn attack(run: Run, words: &mut Words) -> bool {
    if run(words, TURNS + 2, false).is_err() {
        return false;
    }
    if let Err(refused) = run(words, TURNS + 2, false) {
        // An old entry of a damaged journal may come into doubt: see the failure model.
        use nv_rtos::nv_replay::OpenError::Pool;
        use nv_rtos::pmem_tx::OpenError::*;
        let OpenError::Threads(Pool(Damaged(_) | Invalid(_))) = refused else {
            panic!("opened once: {refused}");
        };
    }
    true
}
