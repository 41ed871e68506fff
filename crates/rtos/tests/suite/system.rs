//! What is refused at open, what a kernel takes on the medium, and what holds without cuts.

use crate::support::{Machine, Plain};
use nv_rtos::nvmem::{LayoutMismatch, Model, Region};
use nv_rtos::{Error, Guard, OpenError, Port, Spawn, Thread, code};
use powerfail::{Mapped, World, explore};
use std::mem::MaybeUninit;

mod one {
    use super::*;
    nv_rtos::system! {
        pub(crate) One on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            LETTERS: Queue<u32, 4>;
            ENOUGH: Semaphore = (0, 1);
        }
        threads {
            writer(u32 = 0): 1;
            reader([u32; 3] = [0; 3]): 1;
        }
    }

    pub fn writer(th: &mut Thread<One, u32>) -> Result<(), Error> {
        th.step((), |sys, _, ()| {
            (1..4).try_for_each(|i| LETTERS.send(sys, i))?;
            ENOUGH.give(sys)
        })?;
        th.step(1, |sys, _, _| LETTERS.send(sys, 4))?;
        Ok(())
    }

    /// Begins when there are several messages.
    pub fn reader(th: &mut Thread<One, [u32; 3]>) -> Result<(), Error> {
        th.step((), |sys, _, ()| ENOUGH.take(sys))?;
        let got = th.step(1, |sys, all, _| {
            let all = all.get_mut(sys)?;
            for slot in all.iter_mut() {
                *slot = LETTERS.receive(sys)?;
            }
            Ok(*all)
        })?;
        assert_eq!(got, [1, 2, 3]);
        let last = th.step(2, |sys, _, _| LETTERS.receive(sys))?;
        assert_eq!(last, 4);
        Ok(())
    }
}

mod other {
    use super::*;
    nv_rtos::system! {
        pub(crate) Other on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            LETTERS: Queue<i32, 4>;
            ENOUGH: Semaphore = (0, 1);
        }
        threads {
            writer(u32 = 0): 1;
            reader([u32; 3] = [0; 3]): 1;
        }
    }
}

fn memory(bytes: usize) -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); bytes / 8]
}

#[test]
fn another_system_is_refused() {
    let mut words = memory(2048);
    assert!(one::One::open(Region::new(&mut words)).is_ok());
    let refused = other::Other::open(Region::new(&mut words)).err();
    let layout = matches!(refused, Some(OpenError::Layout(LayoutMismatch { .. })));
    assert!(layout, "{refused:?}");
    assert!(one::One::open(Region::new(&mut words)).is_ok());
}

#[test]
fn short_and_foreign_regions_are_refused() {
    let mut words = memory(256);
    let refused = one::One::open(Region::new(&mut words)).err();
    assert!(matches!(
        refused,
        Some(OpenError::TooSmall | OpenError::Threads(_))
    ));
    let mut words = memory(2048);
    words[3] = MaybeUninit::new(7);
    let refused = one::One::open(Region::new(&mut words)).err();
    assert_eq!(refused, Some(OpenError::Foreign));
}

/// Every word of the kernel's part, damaged in every bit: an error or a system that opens.
#[test]
fn a_damaged_image_is_an_error() {
    const BYTES: usize = 2048;
    let mut words = memory(BYTES);
    assert!(one::One::open(Region::new(&mut words)).is_ok());
    let mut refused = 0;
    for bit in 0..320 * 8 {
        let mut words = words.clone();
        let word = &mut words[bit / 64];
        // SAFETY: initialised by `memory`, and the kernel's part has no padding.
        let damaged = unsafe { word.assume_init() } ^ 1 << (bit % 64);
        *word = MaybeUninit::new(damaged);
        refused += usize::from(one::One::open(Region::new(&mut words)).is_err());
    }
    assert!(refused > 256, "{refused}");
}

#[test]
fn first_in_first_out() {
    let s = explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, ()>| {
        let (kernel, mut threads) = one::One::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                one::One::spawn(&kernel, places, kit, one::writer, one::reader);
            });
        });
        assert_eq!(kernel.ended(0), Some(Ok(())));
        assert_eq!(kernel.ended(1), Some(Ok(())));
    })
    .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 100, "{s}");
}

/// Takes threads, and runs none.
struct Nowhere;
impl<'s> Spawn<'s> for Nowhere {
    fn spawn(&mut self, _: usize, _: &'static str, _: impl FnOnce(&dyn Port) + 's) {}
}

/// Two systems of one type: the commits of the other one's threads are not those that the kernel
/// resolves by.
#[test]
#[should_panic = "the places are those of another kernel"]
fn places_of_another_kernel() {
    let mut both = [memory(2048), memory(2048)];
    let [a, b] = both
        .each_mut()
        .map(|words| one::One::open(Region::new(words)));
    let ((kernel_a, mut threads_a), (kernel_b, mut threads_b)) = (a.unwrap(), b.unwrap());
    let (places, _) = threads_a.share().unwrap();
    one::One::spawn(&kernel_a, places, &mut Nowhere, one::writer, one::reader);
    let (places, _) = threads_b.share().unwrap();
    let _ = kernel_b;
    one::One::spawn(&kernel_a, places, &mut Nowhere, one::writer, one::reader);
}

/// A port that only writes down to which thread it was to switch.
#[derive(Default)]
struct Switches(std::cell::RefCell<Vec<Option<usize>>>);
// SAFETY: it only writes down.
unsafe impl Port for Switches {
    fn now(&self) -> u64 {
        0
    }
    fn switch(&self, to: Option<usize>) {
        self.0.borrow_mut().push(to);
    }
    fn set_timer(&self, _: Option<u64>) {}
}

/// Interrupts may be enabled before the system runs: the machine had no thread to switch to then.
#[test]
fn a_handler_may_come_before_the_start() {
    let mut words = memory(2048);
    let (kernel, _threads) = one::One::open(Region::new(&mut words)).unwrap();
    let port = Switches::default();
    assert!(one::ENOUGH.give_from_isr(&kernel.isr(&port)).unwrap());
    port.0.borrow_mut().clear();
    kernel.start(&port);
    assert_eq!(port.0.take(), [Some(0)]);
}

mod frugal {
    use super::*;
    nv_rtos::system! {
        pub(crate) Frugal on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 6 }
        objects { DONE: Semaphore = (0, 1); }
        threads {
            chooses([u32; 2] = [0; 2]): 1;
            waits(u32 = 0): 1;
        }
    }
}

/// What the world knows: boots, and the energy by which the thread has chosen.
type Chosen = (u32, Option<Option<u32>>);

/// Each boot has another energy; what was recorded stays, and the choice with it.
#[test]
fn a_choice_by_energy_stays() {
    use frugal::{DONE, Frugal};
    let s = explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, Chosen>| {
        w.update(|s| s.0 += 1);
        let boot = w.with(|s| s.0);
        let (kernel, mut threads) = Frugal::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        machine.set_energy((boot != 2).then_some(boot));
        let chooses = |th: &mut Thread<Frugal, [u32; 2]>| {
            let energy = th.energy()?;
            match w.with(|s| s.1) {
                Some(before) => assert_eq!(before, energy, "another energy than before"),
                None => w.update(|s| s.1 = Some(energy)),
            }
            // One step or the other.
            let which = u32::from(energy.is_none_or(|e| e < 2));
            th.step(which, |sys, times, which| {
                times.get_mut(sys)?[which as usize] += 1;
                Ok(())
            })?;
            let times = th.step((), |sys, times, ()| {
                DONE.give(sys)?;
                let now = nv_rtos::energy(sys);
                assert!(
                    now.is_none_or(|e| e != 2),
                    "the second boot's board does not know it"
                );
                Ok(*times.get(sys))
            })?;
            assert_eq!(times, [1 - which, which]);
            Ok(())
        };
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                Frugal::spawn(&kernel, places, kit, chooses, |th| {
                    th.step((), |sys, _, ()| DONE.take(sys))?;
                    Ok(())
                });
            });
        });
        assert!((0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 100, "{s}");
}

mod full {
    use super::*;
    nv_rtos::system! {
        pub(crate) Full on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            A: Queue<u32, 16>;
            M1: Mutex;
            M2: Mutex;
            M3: Mutex;
            M4: Mutex;
            M5: Mutex;
        }
        threads {
            greedy(u32 = 0): 1;
            idle(u32 = 0): 1;
        }
    }

    pub fn greedy(th: &mut Thread<Full, u32>) -> Result<(), Error> {
        let r = th.step((), |sys, _, ()| {
            (0..9).try_for_each(|i| A.send(sys, i))?;
            Ok(())
        });
        assert_eq!(r.map_err(Error::from), Err(Error::Aborted(code::TOO_MANY)));
        let left = th.step(1, |sys, _, _| Ok(A.try_receive(sys)?.is_some()))?;
        assert!(!left, "nothing of it was sent");
        let _guards = (th.lock(&M1)?, th.lock(&M2)?, th.lock(&M3)?, th.lock(&M4)?);
        assert_eq!(th.lock(&M5).err(), Some(Error::Aborted(code::LOCKS)));
        // A second lock of one counts, too.
        assert_eq!(th.lock(&M1).err(), Some(Error::Aborted(code::LOCKS)));
        Err(Error::Other)
    }

    pub fn idle(th: &mut Thread<Full, u32>) -> Result<(), Error> {
        let failed = th.join(Full::greedy());
        assert_eq!(failed, Err(Error::Aborted(code::FAILED)));
        // What it held is free.
        let _guard = th.lock(&M1)?;
        Ok(())
    }
}

#[test]
fn limits_are_errors_and_a_failed_thread_stops_nobody() {
    explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, ()>| {
        let (kernel, mut threads) = full::Full::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                full::Full::spawn(&kernel, places, kit, full::greedy, full::idle);
            });
        });
        assert_eq!(kernel.ended(0), Some(Err(Error::Other)));
        assert_eq!(kernel.ended(1), Some(Ok(())));
    })
    .run();
}

#[test]
fn a_thread_takes_few_bytes() {
    const { assert!(<Plain as Model>::PREEMPTED) };
    // A thread more, and the same objects.
    let each =
        size_of::<nv_rtos::Kernel<'_, three::Three>>() - size_of::<nv_rtos::Kernel<'_, one::One>>();
    println!("a thread takes {each} bytes of the kernel");
    assert!(each <= 72, "{each}");
}

mod three {
    use super::*;
    nv_rtos::system! {
        pub(crate) Three on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            LETTERS: Queue<u32, 4>;
            ENOUGH: Semaphore = (0, 1);
        }
        threads {
            writer(u32 = 0): 1;
            reader([u32; 3] = [0; 3]): 1;
            third(u32 = 0): 1;
        }
    }
}

mod laps {
    use super::*;
    nv_rtos::system! {
        pub(crate) Laps on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            Q: Queue<u32, 3>;
            GO: Semaphore = (0, 1);
        }
        threads {
            passes([u32; 3] = [0; 3]): 1;
            stays(u32 = 0): 2;
        }
    }

    /// Sends and receives in turns; two messages stay in the queue, and the claimed one.
    pub fn passes(th: &mut Thread<Laps, [u32; 3]>) -> Result<(), Error> {
        th.each_step(0..200, (), |sys, counts, i, ()| {
            if i % 2 == 1 && i > 1 {
                if let Some(got) = Q.try_receive(sys)? {
                    let counts = counts.get_mut(sys)?;
                    counts[1] += 1;
                    assert_eq!(got, counts[1]);
                }
            } else if Q.try_send(sys, counts.get(sys)[0])? {
                counts.get_mut(sys)?[0] += 1;
            } else {
                counts.get_mut(sys)?[2] += 1;
            }
            Ok(())
        })?;
        let [sent, received, refused] = th.step((), |sys, counts, ()| {
            while Q.try_receive(sys)?.is_some() {}
            GO.give(sys)?;
            Ok(*counts.get(sys))
        })?;
        assert!(sent > 64 && received > 60, "{sent} {received}");
        assert!(refused > 0, "tickets lie within half of a round");
        th.step(1, |sys, _, _| Q.send(sys, 7))?;
        Ok(())
    }

    /// Has the first message for a long time.
    pub fn stays(th: &mut Thread<Laps, u32>) -> Result<(), Error> {
        let first = th.step((), |sys, _, ()| {
            let first = Q.receive(sys)?;
            GO.take(sys)?;
            Ok(first)
        })?;
        let last = th.step(1, |sys, _, _| Q.receive(sys))?;
        assert_eq!((first, last), (0, 7));
        Ok(())
    }
}

#[test]
fn a_claim_that_stays_ends_the_tickets() {
    let mut words = memory(2048);
    let image: Vec<u8> = {
        assert!(laps::Laps::open(Region::new(&mut words)).is_ok());
        // SAFETY: initialised by `memory`; the roots have no padding.
        let words = words.iter().map(|w| unsafe { w.assume_init() });
        words.flat_map(u64::to_ne_bytes).collect()
    };
    // Without cuts: after one, the claim begins anew.
    let s = explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, bool>| {
        if w.get() {
            return;
        }
        w.set(true);
        let (kernel, mut threads) = laps::Laps::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                laps::Laps::spawn(&kernel, places, kit, laps::passes, laps::stays);
            });
        });
        assert_eq!(kernel.ended(0), Some(Ok(())));
        assert_eq!(kernel.ended(1), Some(Ok(())));
    })
    .image(image)
    .run();
    println!("{s}");
}

mod tickets {
    use super::*;
    nv_rtos::system! {
        pub(crate) Ordered on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects { Q: Queue<u32, 3>; }
        threads { one(u32 = 0): 1; }
    }

    /// Two messages, one more after a boot maybe, and all of them after another one.
    pub fn one(th: &mut Thread<Ordered, u32>) -> Result<(), Error> {
        th.step(1, |sys, _, n| {
            Q.send(sys, n)?;
            Q.send(sys, n + 1)
        })?;
        th.step(3, |sys, _, n| Q.send(sys, n))?;
        let got = th.step((), |sys, _, ()| {
            let all = [Q.receive(sys)?, Q.receive(sys)?, Q.receive(sys)?];
            Ok(all.map(|n| n as u8))
        })?;
        assert_eq!(got, [1, 2, 3]);
        Ok(())
    }
}

#[test]
fn tickets_go_on_after_a_boot() {
    let s = explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, ()>| {
        let (kernel, mut threads) = tickets::Ordered::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                tickets::Ordered::spawn(&kernel, places, kit, tickets::one);
            });
        });
        assert_eq!(kernel.ended(0), Some(Ok(())));
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 1000, "{s}");
}

mod nested {
    use super::*;
    nv_rtos::system! {
        pub(crate) Twice on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {}
        shared { SUM: u32 = 5; }
        threads { locks(u32 = 0): 1; }
    }

    /// Whether the outer guard has used the data must not decide what the inner one gets: a replay
    /// does not know it.
    pub fn locks(th: &mut Thread<Twice, u32>) -> Result<(), Error> {
        let mut outer = th.lock(&SUM)?;
        let add = |th: &mut Thread<Twice, u32>, sum: &mut Guard<'_, '_, '_, Twice, u32>| {
            let done = th.step(sum.data(), |sys, _, mut sum| {
                let sum = sum.get_mut(sys)?;
                *sum += 1;
                Ok(*sum)
            });
            done.map_err(|e| e.error)
        };
        let mut inner = th.lock(&SUM)?;
        assert_eq!(add(th, &mut inner), Err(Error::WrongPool));
        drop(inner);
        assert_eq!(add(th, &mut outer), Ok(6));
        let mut inner = th.lock(&SUM)?;
        assert_eq!(add(th, &mut inner), Err(Error::WrongPool));
        Ok(())
    }
}

/// A thread that locks a mutex twice has two guards. The inner one gets no data, whether or not the
/// outer one has used them.
#[test]
fn the_outermost_guard_has_the_data() {
    let life = |nv: Region<'_, Plain>, w: &World<'_, ()>| {
        let (kernel, mut threads) = nested::Twice::open(nv).unwrap();
        let (places, data) = nested::Twice::share(&mut threads).unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                nested::Twice::spawn(&kernel, places, &data, kit, nested::locks);
            });
        });
        assert_eq!(kernel.ended(0), Some(Ok(())));
    };
    explore(Mapped::<Plain>::new(2048), life).depth(0).run();
}

mod forgets {
    use super::*;
    nv_rtos::system! {
        pub(crate) Leaks on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {}
        shared {
            /// How often it was changed.
            SUM: u32 = 5;
        }
        threads {
            forgets(u32 = 0): 2;
            finds(u32 = 0): 1;
        }
    }

    fn add(th: &mut Thread<Leaks, u32>) -> Result<u32, Error> {
        let mut sum = th.lock(&SUM)?;
        let done = th.step((sum.data(), 1), |sys, _, (mut sum, n)| {
            let sum = sum.get_mut(sys)?;
            *sum += n;
            Ok(*sum)
        });
        let done = done.map_err(|e| e.error);
        if done == Ok(6) {
            std::mem::forget(sum);
        }
        done
    }

    pub fn forgets(th: &mut Thread<Leaks, u32>) -> Result<(), Error> {
        assert_eq!(add(th), Ok(6));
        Ok(())
    }

    /// The mutex is free, because its holder has ended. The data are not: nobody has given them
    /// back.
    pub fn finds(th: &mut Thread<Leaks, u32>) -> Result<(), Error> {
        th.join(Leaks::forgets())?;
        let r = add(th);
        assert!(matches!(r, Err(Error::WrongPool) | Ok(7)), "{r:?}");
        r.map(drop)
    }
}

#[test]
fn a_forgotten_guard_keeps_its_data_until_the_next_boot() {
    explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, u8>| {
        w.update(|boots| *boots += 1);
        let (kernel, mut threads) = forgets::Leaks::open(nv).unwrap();
        let (places, data) = forgets::Leaks::share(&mut threads).unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                let (forgets, finds) = (forgets::forgets, forgets::finds);
                forgets::Leaks::spawn(&kernel, places, &data, kit, forgets, finds);
            });
        });
        assert_eq!(kernel.ended(0), Some(Ok(())));
        let refused = kernel.ended(1) == Some(Err(Error::WrongPool));
        assert!(refused || w.get() > 1 && kernel.ended(1) == Some(Ok(())));
    })
    .run();
}

macro_rules! with_a_timer {
    ($module:ident: $($timer:tt)*) => {
        mod $module {
            use super::*;
            nv_rtos::system! {
                pub(crate) Plan on Plain;
                table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
                objects { BLINK: Timer = $($timer)*; }
                threads {
                    one(u32 = 0): 1;
                    two(u32 = 0): 1;
                }
            }
        }
    };
}
with_a_timer! { slow: periodic(500) }
with_a_timer! { fast: periodic(100) }
with_a_timer! { once: one_shot(100) }

#[test]
fn a_program_may_change_the_period_of_a_timer() {
    assert_eq!(slow::BLINK.period(), 500);
    let mut words = memory(2048);
    assert!(slow::Plan::open(Region::new(&mut words)).is_ok());
    assert!(fast::Plan::open(Region::new(&mut words)).is_ok());
    let refused = once::Plan::open(Region::new(&mut words)).err();
    assert!(matches!(refused, Some(OpenError::Layout(_))), "{refused:?}");
}

mod heir {
    use super::*;
    nv_rtos::system! {
        pub(crate) Inherits on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            UNUSED: Timer = periodic(9);
            ONCE: Timer = one_shot(2);
            NEVER: Semaphore = (0, 1);
        }
        threads {
            fails(u32 = 0): 2;
            heir(u32 = 0): 1;
        }
    }

    pub fn fails(th: &mut Thread<Inherits, u32>) -> Result<(), Error> {
        th.step((), |sys, _, ()| ONCE.start(sys))?;
        let r = th.step(1, |sys, _, _| {
            assert!(ONCE.is(nv_rtos::expired(sys)?));
            assert!(!ONCE.is_active(sys));
            // The other one looks meanwhile.
            NEVER.take_timeout(sys, 1)?;
            Err::<(), _>(sys.abort(7))
        });
        assert_eq!(r.map_err(Error::from), Err(Error::Aborted(7)));
        Ok(())
    }

    pub fn heir(th: &mut Thread<Inherits, u32>) -> Result<(), Error> {
        th.step((), |sys, _, ()| {
            assert!(ONCE.is(nv_rtos::expired(sys)?));
            Ok(())
        })?;
        let active = th.step(1, |sys, _, _| Ok(u32::from(ONCE.is_active(sys))))?;
        assert_eq!(active, 0);
        Ok(())
    }
}

#[test]
fn another_step_gets_the_expiry_of_one_that_fails() {
    let s = explore(Mapped::<Plain>::new(2048), |nv, w: &World<'_, ()>| {
        let (kernel, mut threads) = heir::Inherits::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                heir::Inherits::spawn(&kernel, places, kit, heir::fails, heir::heir);
            });
        });
        assert_eq!(kernel.ended(0), Some(Ok(())));
        assert_eq!(kernel.ended(1), Some(Ok(())));
    })
    .run();
    println!("{s}");
}

mod made {
    use super::*;
    nv_rtos::system! {
        pub(crate) Made on Plain;
        table { bytes: 64, outbox_bytes: 0, seq_bits: 12 }
        objects {
            QUEUES: [Queue<u32, 2>; 1] => Queued;
            COUNTS: [Semaphore = 2; 2] => Count;
            FLAGS: [Events; 1] => Flag;
        }
        threads {
            maker(u32 = 0): 1;
            other(u32 = 0): 1;
        }
    }
}

/// A handle names one object, until 128 others were made in its place.
#[test]
fn a_handle_is_old_until_its_state_comes_round() {
    use made::*;
    let life = |nv: Region<'_, Plain>, w: &World<'_, ()>| {
        let (kernel, mut threads) = Made::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        let maker = |th: &mut Thread<Made, u32>| {
            let first = th.step((), |sys, _, ()| QUEUES.make(sys))?;
            th.each_step(0..127, first, |sys, n, i, first| {
                if i == 0 {
                    QUEUES.delete(sys, first)?;
                }
                let next = QUEUES.try_make(sys)?;
                assert_eq!(
                    next.is_some(),
                    i > 0,
                    "its last object is deleted with this step"
                );
                let gone = QUEUES.at(first).try_send(sys, 1);
                assert_eq!(
                    gone.unwrap_err(),
                    nv_rtos::pmem_tx::Error::Aborted(code::DELETED)
                );
                if let Some(next) = next {
                    QUEUES.at(next).try_send(sys, i)?;
                    QUEUES.delete(sys, next)?;
                    *n.get_mut(sys)? += 1;
                }
                Ok(())
            })?;
            th.step(first, |sys, n, first| {
                assert_eq!(*n.get(sys), 126);
                let last = QUEUES.make(sys)?;
                assert_ne!(last, first);
                QUEUES.delete(sys, last)?;
                Ok(())
            })?;
            let again = th.step((first, 0), |sys, _, (first, _)| {
                let again = QUEUES.make(sys)?;
                assert_eq!(again, first, "after 128");
                Ok(again)
            })?;
            let none = th.step(again, |sys, _, again| {
                QUEUES
                    .at(again)
                    .try_receive(sys)
                    .map(|m| u32::from(m.is_some()))
            })?;
            assert_eq!(none, 0, "it is new");
            // More than its maximum.
            let more = th.step((), |sys, _, ()| COUNTS.make(sys, 3).map(drop));
            assert_eq!(more.map_err(Error::from), Err(Error::Aborted(code::FULL)));
            let all = th.step((), |sys, _, ()| {
                COUNTS.make(sys, 2)?;
                COUNTS.make(sys, 2)?;
                COUNTS.make(sys, 2).map(drop)
            });
            assert_eq!(
                all.map_err(Error::from),
                Err(Error::Aborted(code::NO_PLACE))
            );
            Ok(())
        };
        w.threads(|t| {
            machine.start(t, &kernel, |kit| {
                Made::spawn(&kernel, places, kit, maker, |_| Ok(()));
            });
        });
        assert!((0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
    };
    explore(Mapped::<Plain>::new(2048), life).depth(0).run();
}

/// Interrupts' handlers use objects that were made at run time, while they exist.
#[test]
fn handlers_use_what_was_made() {
    use made::*;
    fn maker(
        th: &mut Thread<Made, u32>,
        give: impl Fn(Queued, Count, Flag) -> [Result<bool, Error>; 3],
    ) -> Result<(), Error> {
        let queue = th.step((), |sys, _, ()| QUEUES.make(sys))?;
        let count = th.step((), |sys, _, ()| COUNTS.make(sys, 0))?;
        let flag = th.step((), |sys, _, ()| FLAGS.make(sys))?;
        assert_eq!(give(queue, count, flag), [Ok(true); 3]);
        th.step((queue, count, flag), |sys, _, (queue, count, flag)| {
            assert_eq!(QUEUES.at(queue).receive(sys)?, 5);
            COUNTS.at(count).take(sys)?;
            FLAGS.at(flag).wait(sys, 4, nv_rtos::Until::All)?;
            QUEUES.delete(sys, queue)?;
            COUNTS.delete(sys, count)?;
            FLAGS.delete(sys, flag)
        })?;
        let deleted = Err(Error::Aborted(code::DELETED));
        assert_eq!(give(queue, count, flag), [deleted; 3]);
        Ok(())
    }
    let life = |nv: Region<'_, Plain>, w: &World<'_, ()>| {
        let (kernel, mut threads) = Made::open(nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        w.threads(|t| {
            let kernel = &kernel;
            machine.start(t, kernel, |kit| {
                let kit_of_maker = *kit;
                let give = move |queue, count, flag| {
                    // What a handler would do, in the thread.
                    let isr = kernel.isr(&kit_of_maker);
                    let sent = QUEUES.at(queue).send_from_isr(&isr, 5);
                    let given = COUNTS.at(count).give_from_isr(&isr);
                    let set = FLAGS.at(flag).set_from_isr(&isr, 4).map(|()| true);
                    [sent, given, set]
                };
                let maker = move |th: &mut Thread<Made, u32>| maker(th, give);
                Made::spawn(kernel, places, kit, maker, |_| Ok(()));
            });
        });
        assert!((0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
    };
    explore(Mapped::<Plain>::new(2048), life).depth(0).run();
}

mod stuck {
    use super::*;
    nv_rtos::system! {
        pub(crate) Stuck on Plain;
        table { bytes: 64, outbox_bytes: 0, seq_bits: 12 }
        objects { NEVER: Semaphore = (0, 1); }
        threads { boss(u32 = 0): 2; }
        reserve { worker(u32 = 0, u32): 1; }
        control { lives: 1, ticks: 10 }
    }
}

/// The life in which it was spawned counts against a thread that does not come on.
#[test]
fn a_spawned_thread_is_parked_as_any_other() {
    use stuck::*;
    let life = |nv: Region<'_, Plain>, w: &World<'_, ()>| {
        // The first boot formats, and cannot know the number of a thread without a commit.
        // SAFETY: it is gone before the next one is made.
        assert!(Stuck::open(unsafe { nv.tail(0) }).is_ok());
        for boot in 0..2 {
            // SAFETY: the first one is gone before the second one is made.
            let (kernel, mut threads) = Stuck::open(unsafe { nv.tail(0) }).unwrap();
            let (places, _) = threads.share().unwrap();
            let machine = Machine::default();
            assert_eq!(kernel.parked(1), boot == 1);
            w.threads(|t| {
                let machine = &machine;
                machine.start(t, &kernel, |kit| {
                    Stuck::spawn(
                        &kernel,
                        places,
                        kit,
                        |th| {
                            // By then nobody is looked at any more.
                            th.delay(15)?;
                            th.step((), |sys, _, ()| Stuck::worker().spawn(sys, 5))?;
                            th.step(1, |sys, _, _| NEVER.take(sys)).map_err(Error::from)
                        },
                        // More than a life has.
                        move |_, _| {
                            assert_eq!(boot, 0, "a parked thread runs");
                            t.sleep(80);
                            Ok(())
                        },
                    );
                });
                t.spawn("power", 2, move || {
                    t.sleep(45);
                    machine.power_off(t);
                });
            });
        }
    };
    explore(Mapped::<Plain>::new(2048), life).depth(0).run();
}

mod parked_owner {
    use super::*;
    nv_rtos::system! {
        pub(super) Kept on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 12 }
        objects {
            LATCHES: [Mutex; 1] => Latch;
            TO_BOSS: Queue<Latch, 1>;
            NEVER: Semaphore = (0, 1);
        }
        threads {
            boss(u32 = 0): 2;
            stuck(u32 = 0): 1;
        }
        control { change: true, lives: 1, ticks: 10 }
    }
}

/// A parked thread is not aborted while a mutex names it, unless that was deleted.
#[test]
fn a_deleted_mutex_keeps_no_thread_alive() {
    use parked_owner::*;
    let life = |nv: Region<'_, Plain>, w: &World<'_, ()>| {
        for boot in 0..3 {
            // SAFETY: the one before is gone.
            let (kernel, mut threads) = Kept::open(unsafe { nv.tail(0) }).unwrap();
            let (places, _) = threads.share().unwrap();
            let machine = Machine::default();
            assert_eq!(kernel.parked(1), boot == 2);
            w.threads(|t| {
                let machine = &machine;
                machine.start(t, &kernel, |kit| {
                    Kept::spawn(
                        &kernel,
                        places,
                        kit,
                        move |th| {
                            let latch = th.step((), |sys, _, ()| TO_BOSS.receive(sys))?;
                            th.step(latch, |sys, _, latch| LATCHES.delete(sys, latch))?;
                            if boot < 2 {
                                th.step(1, |sys, _, _| NEVER.take(sys))?;
                            }
                            th.step(2, |sys, _, _| Kept::stuck().abort(sys))?;
                            Ok(())
                        },
                        |th| {
                            let latch = th.step((), |sys, _, ()| LATCHES.make(sys))?;
                            let guard = th.lock(&LATCHES.at(latch))?;
                            th.step(1, |_, _, _| Ok(()))?;
                            drop(guard);
                            th.step(latch, |sys, _, latch| TO_BOSS.send(sys, latch))?;
                            // More than a life has.
                            t.sleep(80);
                            Ok(())
                        },
                    );
                });
                t.spawn("power", 3, move || {
                    t.sleep(45);
                    machine.power_off(t);
                });
            });
            if boot == 2 {
                assert_eq!(kernel.ended(0), Some(Ok(())));
                assert_eq!(kernel.ended(1), Some(Err(Error::Aborted(code::ABORTED))));
            }
        }
    };
    explore(Mapped::<Plain>::new(2048), life).depth(0).run();
}
