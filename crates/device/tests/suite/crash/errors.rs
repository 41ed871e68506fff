//! Errors and panics in the middle of calls, and steps that are undone: after each of them the
//! device is as its committed context says.

use crate::crash::chips::{Board, I2c};
use crate::crash::drivers::{Lamps, Second};
use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Commit, Committed as Done, Error, Token};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nv_rtos::Joiner;
use nv_device::nvmem::{InOrder32, Region};
use nv_device::{
    Apply, CallError, Code, Committed, Device, Devices, Entry, Joined, Members, OfSet, Own,
    Restore, Set, Staged, StagedDevice, open, within,
};
use powerfail::{Mapped, World, explore};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A panic that prints nothing.
fn unwind() -> ! {
    resume_unwind(Box::new(()))
}

struct Panel<'b, 'm, M: Tested>(StagedDevice<'m, Lamps<'b>, M>);
impl<M: Tested> Devices for Panel<'_, '_, M> {
    fn list(&self) -> impl Members {
        &self.0
    }
}

/// Which transaction on the bus fails, in each boot.
fn boot<M: Tested, const FAILS: u32>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let board = Board::new(world);
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::SMALL);
    let (lit, own) = open::<(Staged<u8>, Own<u8>), _>(contexts, committed, (0, 0)).expect("opens");
    let set = Set::new(Panel(
        StagedDevice::<Lamps<'_>, _>::eager(lit, I2c(&board)).expect("the lamps"),
    ));
    let options = Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
        .unwrap_or_else(|r| panic!("{}", r.error));
    board.fails_in.set(FAILS);
    for i in 0..3 {
        let done = rt.step_with(&set, i, |step, count, i| {
            let lamps = &step.token().0;
            // Two transactions: an error may leave the first one's state.
            let shown = lamps.at_least_once(step, |lamps| {
                *lamps.context_mut() = i as u8 + 1;
                lamps.driver().show(0x80)?;
                lamps.driver().show(i as u8 + 1)
            });
            if i == 1 {
                return Err(step.abort(7));
            }
            match shown {
                Ok(()) => *count.get_mut(step)? += 1,
                Err(CallError::Driver(_)) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
            Ok(true)
        });
        assert_eq!(done.is_err(), i == 1);
        let lit = set.0.context().expect("no call runs");
        assert_eq!(board.lamps.get(), lit, "after step {i}");
    }
    board.fails_in.set(0);
    drop(rt);
    let mut own = Device::<Lamps<'_>, _>::eager(own, I2c(&board)).expect("the lamps");
    board.fails_in.set(2);
    let failed = own.at_least_once((), |lamps, ()| {
        *lamps.context_mut() = 9;
        lamps.driver().show(0x80)?;
        lamps.driver().show(9)
    });
    assert!(matches!(failed, Err(CallError::Driver(_))));
    assert_eq!((board.lamps.get(), *own.context()), (0, 0));
}

fn run<M: Tested>() {
    fn one<M: Tested, const FAILS: u32>() {
        explore(Mapped::<M>::new(BYTES), boot::<M, FAILS>)
            .depth(2)
            .max_depth(2)
            .sample(8)
            .run();
    }
    one::<M, 1>();
    one::<M, 2>();
    one::<M, 6>();
}
on_each!(errors, run);

/// A set of lamps that shine, whose driver is not built, and a program beside it.
#[allow(clippy::type_complexity)]
fn opened<'b, 'm>(
    region: Region<'m, InOrder32>,
    board: &'b Board<'b, 'b>,
) -> (
    Set<Panel<'b, 'm, InOrder32>>,
    Replay<'m, u32, InOrder32, ()>,
) {
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::SMALL);
    let (lit,) = open::<(Staged<u8>,), _>(contexts, committed, (1,)).expect("opens");
    let set = Set::new(Panel(StagedDevice::<Lamps<'_>, _>::new(lit, I2c(board))));
    let options = Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let rt =
        Replay::open_with(rest, options, (), |_| Ok(0)).unwrap_or_else(|r| panic!("{}", r.error));
    (set, rt)
}

#[test]
fn a_panic_takes_the_driver_out() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (set, mut rt) = opened(region, &board);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                rt.step_with(&set, (), |step, _, ()| {
                    let lamps = &step.token().0;
                    lamps.at_least_once(step, |lamps| {
                        *lamps.context_mut() = 5;
                        lamps.driver().show(5)
                    })?;
                    lamps.at_least_once(step, |_| unwind())?;
                    Ok(())
                })
                .map_err(|e| e.error)
            }));
            assert!(caught.is_err());
            assert_eq!(board.lamps.get(), 5);
            let lit = set.0.with(|_, lit| Ok(*lit));
            assert!(matches!(lit, Ok(1)));
            assert_eq!(board.lamps.get(), 1);
        },
    )
    .run();
}

/// A driver that is built in a step is built from what is committed, and not from what the step
/// wants.
#[test]
fn a_driver_built_in_a_step() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (set, mut rt) = opened(region, &board);
            let undone = rt.step_with(&set, (), |step, _, ()| {
                let lamps = &step.token().0;
                lamps.change(step, |lit| *lit = 2)?;
                lamps.with(|_, _| Ok(()))?;
                Err::<(), _>(step.abort(7))
            });
            assert!(undone.is_err());
            set.0.with(|_, _| Ok(())).expect("in use");
            assert_eq!((board.lamps.get(), set.0.context()), (1, Some(1)));
        },
    )
    .run();
}

/// A member of a set that it has not counted, so that the join refuses.
struct Broken;
impl Joined for Broken {
    fn enter(&self, _: &mut Entry) {}
    fn used(&self) -> u8 {
        1
    }
    fn stage(&self, _: u32) -> bool {
        true
    }
    fn revert(&self) -> bool {
        true
    }
    fn finish(&self) -> bool {
        true
    }
    fn fall_behind(&self) {}
    fn show(&self) {}
    fn undone(&self) -> bool {
        false
    }
}

/// A step whose commit fails after a device was staged: nothing of it is left, although the record
/// of its error commits the same number.
#[test]
fn a_join_that_fails() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (contexts, rest) = split(region);
            let number = last_committed(&rest).expect("a table");
            let committed = Committed::of(number, &Config::SMALL);
            let (one, two) =
                open::<(Staged<u8>, Staged<i32>), _>(contexts, committed, (1, 1)).expect("opens");
            struct Bad<'b, 'm>(
                StagedDevice<'m, Lamps<'b>, InOrder32>,
                StagedDevice<'m, Second<'b>, InOrder32>,
            );
            impl Devices for Bad<'_, '_> {
                fn list(&self) -> impl Members {
                    (&self.0, &self.1, &Broken)
                }
            }
            let set = Set::new(Bad(
                StagedDevice::new(one, I2c(&board)),
                StagedDevice::new(two, I2c(&board)),
            ));
            let options = Options {
                table: Config::SMALL,
                ..Options::default()
            };
            let mut rt = Replay::<u32, InOrder32, _>::open_with(rest, options, (), |_| Ok(0))
                .unwrap_or_else(|r| panic!("{}", r.error));
            assert_eq!((set.0.context(), set.1.context()), (Some(1), Some(1)));
            let failed = rt.step_with(&set, (), |step, _, ()| {
                step.token().0.change(step, |lit| *lit = 2)?;
                step.token().1.change(step, |upper| *upper = 2)?;
                Ok(())
            });
            let error = failed.map_err(|e| e.error);
            let code = nv_device::nv_replay::Error::Aborted(Code::Forgotten as u16);
            assert_eq!(error, Err(code));
            assert_eq!((set.0.context(), set.1.context()), (Some(1), Some(1)));
        },
    )
    .depth(2)
    .run();
}

/// A step that a kernel refuses after its devices were staged: nothing of it is left, although the
/// record of its error commits the same number.
#[test]
fn a_kernel_that_refuses() {
    struct Refuses<'b, 'm>(Set<Panel<'b, 'm, InOrder32>>);
    impl Token<InOrder32> for Refuses<'_, '_> {
        fn join<'c>(&self, commit: Commit<'c, InOrder32>) -> Result<Done<'c>, Error> {
            Joiner::join_by(&self.0, commit, |_| Err(Error::Aborted(9)))
        }
        fn undone(&self) {
            panic!("the join gives up by itself")
        }
    }
    impl<'b, 'm> OfSet for Refuses<'b, 'm> {
        type Devices = Panel<'b, 'm, InOrder32>;
        fn set(&self) -> &Set<Self::Devices> {
            &self.0
        }
    }
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (set, mut rt) = opened(region, &board);
            assert_eq!(set.0.context(), Some(1));
            let set = Refuses(set);
            let failed = rt.step_with(&set, (), |step, count, ()| {
                *count.get_mut(step)? += 1;
                let lamps = &step.token().0.0;
                lamps.change(step, |lit| *lit = 2)?;
                Ok(())
            });
            assert_eq!(failed.map_err(|e| e.error), Err(Error::Aborted(9)));
            assert_eq!(set.0.0.context(), Some(1));
            assert_eq!(rt.view(|tx, count| *count.get(tx)), Ok(Some(0)));
        },
    )
    .depth(2)
    .run();
}

/// Devices whose driver unwinds while it follows a commit: all contexts are settled, and all
/// devices follow when they are used.
#[test]
fn a_panic_while_devices_follow() {
    struct Shy<'p>(PhantomData<&'p Cell<u8>>);
    impl<'p> Restore for Shy<'p> {
        type Context = [u8; 6];
        type Parts = &'p Cell<u8>;
        type Error = ();
        fn restore(port: &mut &'p Cell<u8>, context: &[u8; 6]) -> Result<Self, ()> {
            port.set(context[0]);
            Ok(Shy(PhantomData))
        }
        fn apply(&mut self, _: &[u8; 6]) -> Result<Apply, ()> {
            unwind()
        }
    }
    struct Three<'p, 'm>([StagedDevice<'m, Shy<'p>, InOrder32>; 3]);
    impl Devices for Three<'_, '_> {
        fn list(&self) -> impl Members {
            (&self.0[0], &self.0[1], within(|f| f(&self.0[2])))
        }
    }
    let mut memory = [const { MaybeUninit::new(0u64) }; 96];
    for boot in 0..3 {
        let (contexts, rest) = split(Region::<InOrder32>::new(&mut memory));
        let number = last_committed(&rest).expect("a table");
        let committed = Committed::of(number, &Config::SMALL);
        type All = (Staged<[u8; 6]>, Staged<[u8; 6]>, Staged<[u8; 6]>);
        let (a, b, c) =
            open::<All, _>(contexts, committed, ([1; 6], [1; 6], [1; 6])).expect("opens");
        let ports = [const { Cell::new(0) }; 3];
        let device = |context, port| StagedDevice::<Shy<'_>, _>::eager(context, port).unwrap();
        let set = Set::new(Three([
            device(a, &ports[0]),
            device(b, &ports[1]),
            device(c, &ports[2]),
        ]));
        let expected = 1 + boot;
        assert!(ports.iter().all(|p| p.get() == expected), "boot {boot}");
        let options = Options {
            table: Config::SMALL,
            start_over: true,
            ..Options::default()
        };
        let mut rt = Replay::<u32, InOrder32, _>::open_with(rest, options, (), |_| Ok(0))
            .unwrap_or_else(|r| panic!("{}", r.error));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            rt.step_with(&set, (), |step, _, ()| {
                for device in &step.token().0 {
                    device.change(step, |c| *c = [c[0] + 1; 6])?;
                }
                Ok(())
            })
            .map_err(|e| e.error)
        }));
        assert!(caught.is_err());
        for (device, port) in set.0.iter().zip(&ports) {
            assert_eq!(device.context(), Some([expected + 1; 6]));
            device.with(|_, _| Ok(())).expect("it is built again");
            assert_eq!(port.get(), expected + 1);
        }
    }
}

/// A step that uses a device outside of its set fails, and nothing of it is left.
#[test]
fn a_forgotten_device() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (contexts, rest) = split(region);
            let number = last_committed(&rest).expect("a table");
            let committed = Committed::of(number, &Config::SMALL);
            let (one, two) =
                open::<(Staged<u8>, Staged<u8>), _>(contexts, committed, (1, 1)).expect("opens");
            struct Half<'b, 'm>(
                StagedDevice<'m, Lamps<'b>, InOrder32>,
                StagedDevice<'m, Lamps<'b>, InOrder32>,
            );
            impl Devices for Half<'_, '_> {
                fn list(&self) -> impl Members {
                    &self.0
                }
            }
            let set = Set::new(Half(
                StagedDevice::new(one, I2c(&board)),
                StagedDevice::new(two, I2c(&board)),
            ));
            let options = Options {
                table: Config::SMALL,
                ..Options::default()
            };
            let mut rt = Replay::<u32, InOrder32, _>::open_with(rest, options, (), |_| Ok(0))
                .unwrap_or_else(|r| panic!("{}", r.error));
            // Whatever a cut leaves, nothing of the failed step counts.
            assert_eq!((set.0.context(), set.1.context()), (Some(1), Some(1)));
            for _ in 0..2 {
                let failed = rt.step_with(&set, (), |step, _, ()| {
                    step.token().0.change(step, |lit| *lit = 2)?;
                    step.token().1.change(step, |lit| *lit = 2)?;
                    Ok(())
                });
                let error = failed.map_err(|e| e.error);
                let code = nv_device::nv_replay::Error::Aborted(Code::Forgotten as u16);
                assert_eq!(error, Err(code));
                assert_eq!((set.0.context(), set.1.context()), (Some(1), Some(1)));
            }
        },
    )
    .depth(2)
    .run();
}
