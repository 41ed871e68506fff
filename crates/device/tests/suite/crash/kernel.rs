//! A thread of `nv-rtos` waits for presses, shows how many there were, and sends each to another
//! thread: the press, the lamps' context, the message and the thread's count commit together.
//!
//! A press comes at every point; the power is cut at every point.

use crate::crash::chips::{Board, I2c};
use crate::crash::drivers::Lamps;
use crate::crash::world::Outside;
use nv_device::nv_replay::pmem_tx::{Preempted, Width};
use nv_device::nv_rtos::host::{Machine, Masked};
use nv_device::nv_rtos::{Error, Thread, wait_until, wait_until_timeout};
use nv_device::nvmem::{Model, Region};
use nv_device::{Committed, Devices, Events, Members, Posted, Ring, Set, Staged, StagedDevice};
use nv_device::{open, within};
use powerfail::{Mapped, World, explore, masked};

const BYTES: usize = 256 + 3072;
/// What the panel handles.
const PRESSES: u32 = 3;

/// The system on each model: each a module, because a system names its model.
macro_rules! systems {
    ($($name:ident $model:ident $seq:literal),+) => {$(
        mod $name {
            use super::*;
            pub type Fram = Preempted<nv_device::nvmem::$model, Masked>;
            nv_device::nv_rtos::system! {
                pub Plan on Fram;
                table { bytes: 64, outbox_bytes: 0, seq_bits: $seq }
                objects { QUEUE: Queue<u32, 2>; }
                threads {
                    logger([u32; 4] = [0; 4]): 1;
                    panel(u32 = 0): 2;
                }
            }

            fn panel(
                th: &mut Thread<Plan, u32>,
                set: &mut Set<Panel<'_, '_, Fram>>,
            ) -> Result<(), Error> {
                // One that fails has not taken the press, nor lit a lamp, nor sent anything.
                let failed = th.step_with(set, 7, |step, n, _| {
                    *n.get_mut(step)? += 100;
                    let panel = step.token();
                    masked(|| panel.ring.take(step))?;
                    panel.lamps.change(step, |lit| *lit += 100)?;
                    QUEUE.try_send(&step.inner(), 100)?;
                    Err::<(), _>(step.abort(9))
                });
                assert_eq!(failed.map_err(|e| e.error), Err(Error::Aborted(9)));
                th.each_step_with(set, 0..PRESSES, (), |step, n, _, ()| {
                    let panel = step.token();
                    let take = || Ok(masked(|| panel.ring.take(step))?);
                    let press = match wait_until_timeout(&step.inner(), 1, take)? {
                        Some(press) => press,
                        None => wait_until(&step.inner(), take)?,
                    };
                    *n.get_mut(step)? += 1;
                    panel.lamps.change(step, |lit| *lit += 1)?;
                    QUEUE.send(&step.inner(), press.value)
                })?;
                let n = th.view(|tx, n| *n.get(tx))?;
                assert_eq!(n, Some(PRESSES));
                assert_eq!(set.lamps.context(), Some(PRESSES as u8));
                Ok(())
            }

            fn logger(th: &mut Thread<Plan, [u32; 4]>) -> Result<(), Error> {
                th.each_step(0..PRESSES, (), |sys, log, i, ()| {
                    log.get_mut(sys)?[i as usize] = QUEUE.receive(sys)?;
                    Ok(())
                })
            }

            pub fn boot(region: Region<'_, Fram>, world: &World<'_, Outside>) {
                let board = Board::new(world);
                let (contexts, rest) = crate::crash::split(region);
                let (kernel, mut threads) = Plan::open(rest).expect("the system opens");
                let committed = Committed::of_thread(&threads, Plan::panel()).expect("a number");
                let (lit, ring) =
                    open::<(Staged<u8>, Ring<2>), _>(contexts, committed, (0, ())).expect("opens");
                let lamps = StagedDevice::eager(lit, I2c(&board)).expect("the lamps");
                assert_eq!(Some(board.lamps.get()), lamps.context());
                let panel_of = Panel { ring: &ring, lamps };
                let mut set = Set::new(panel_of);
                let (places, _) = threads.share().expect("the places");
                let machine = Machine::default();
                let log = std::cell::Cell::new([0; 4]);
                world.threads(|t| {
                    let (kernel, ring, log, set) = (&kernel, &ring, &log, &mut set);
                    let kit = machine.start(t, kernel, |kit| {
                        let logger = |th: &mut Thread<Plan, [u32; 4]>| {
                            logger(th)?;
                            log.set(th.view(|tx, log| *log.get(tx))?.expect("it is live"));
                            Ok(())
                        };
                        Plan::spawn(kernel, places, kit, logger, |th| panel(th, set));
                    });
                    t.interrupt("button", move || {
                        if press(ring, world) {
                            Plan::panel().wake_from_isr(&kernel.isr(&kit));
                        }
                    });
                });
                for thread in 0..2 {
                    assert_eq!(kernel.ended(thread), Some(Ok(())));
                }
                assert_eq!(u32::from(board.lamps.get()), PRESSES);
                check(&log.get()[..PRESSES as usize], world);
            }
        }
    )+};
}
systems! { on16 InOrder16 6, on32 InOrder32 5, buffered Buffered32 5 }

struct Panel<'a, 'm, M: Model<Unit: Width>> {
    ring: &'a Events<'m, 2, M>,
    lamps: StagedDevice<'m, Lamps<'a>, M>,
}

impl<M: Model<Unit: Width>> Devices for Panel<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.lamps, within(|f| masked(|| f(self.ring))))
    }
}

/// A press, which is offered with a number that no other one has. Whether there may be something
/// to handle.
fn press<M: Model<Unit: Width>>(ring: &Events<'_, 2, M>, world: &World<'_, Outside>) -> bool {
    let offered = world.with(|w| w.progress);
    if offered >= 9 {
        return false;
    }
    world.update(|w| w.progress += 1);
    match masked(|| ring.post(offered + 1)) {
        Posted::Stored => world.update(|w| w.posted.push(offered as u8 + 1)),
        Posted::Counted => world.update(|w| w.refused += 1),
        Posted::Refused => panic!("a press is small"),
    }
    true
}

/// What the logger has is what was posted: in order, each once, none left out.
fn check(log: &[u32], world: &World<'_, Outside>) {
    let (posted, offered) = world.with(|w| (w.posted.clone(), w.progress));
    assert!(
        log.is_sorted_by(|a, b| a < b),
        "not in order, or twice: {log:?}"
    );
    let last = log.last().copied().unwrap_or(0);
    assert!(last <= offered, "nobody has offered {last}");
    for p in posted.into_iter().map(u32::from).filter(|p| *p <= last) {
        assert!(log.contains(&p), "press {p} was lost: {log:?}");
    }
}

/// Runs a system under cuts, and under each preemption.
macro_rules! campaign {
    ($name:ident) => {{
        let counting = Outside {
            counts: true,
            ..Outside::default()
        };
        let s = explore(Mapped::<$name::Fram>::new(BYTES), $name::boot)
            .world(counting)
            .depth(1)
            .max_depth(1)
            .preemptions(1)
            .limit(16)
            .one_in(3)
            .run();
        println!("device.kernel.{}: {s}", stringify!($name));
        assert!(s.partial || s.cuts > 1000, "{s}");
    }};
}

mod pressed {
    use super::*;
    #[test]
    fn in_order_16() {
        campaign!(on16)
    }
    #[test]
    fn in_order_32() {
        campaign!(on32)
    }
    #[test]
    fn buffered_32() {
        campaign!(buffered)
    }
}
