//! Errors and panics in the middle of calls, and steps that are undone: after each of them the
//! device is as its committed context says.

use crate::chips::{Board, I2c};
use crate::drivers::Lamps;
use crate::world::Outside;
use crate::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::{InOrder32, Region};
use nv_device::{
    CallError, Code, Committed, Device, Devices, Members, Own, Set, Staged, StagedDevice, open,
};
use powerfail::{Mapped, World, explore};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
    let (number, rest) = last_committed(rest).unwrap_or_else(|r| panic!("{}", r.error));
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

#[test]
fn a_panic_takes_the_driver_out() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (contexts, rest) = split(region);
            let (number, rest) = last_committed(rest).unwrap_or_else(|r| panic!("{}", r.error));
            let committed = Committed::of(number, &Config::SMALL);
            let (lit,) = open::<(Staged<u8>,), _>(contexts, committed, (1,)).expect("opens");
            let set = Set::new(Panel(StagedDevice::<Lamps<'_>, _>::new(lit, I2c(&board))));
            let options = Options {
                table: Config::SMALL,
                ..Options::default()
            };
            let mut rt = Replay::<u32, InOrder32, _>::open_with(rest, options, (), |_| Ok(0))
                .unwrap_or_else(|r| panic!("{}", r.error));
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(|_| {}));
            let caught = catch_unwind(AssertUnwindSafe(|| {
                rt.step_with(&set, (), |step, _, ()| {
                    let lamps = &step.token().0;
                    lamps.at_least_once(step, |lamps| {
                        *lamps.context_mut() = 5;
                        lamps.driver().show(5)
                    })?;
                    lamps.at_least_once(step, |_| panic!("in a call"))?;
                    Ok(())
                })
                .map_err(|e| e.error)
            }));
            std::panic::set_hook(before);
            assert!(caught.is_err());
            assert_eq!(board.lamps.get(), 5);
            let lit = set.0.with(|_, lit| Ok(*lit));
            assert!(matches!(lit, Ok(1)));
            assert_eq!(board.lamps.get(), 1);
        },
    )
    .run();
}

/// A step that changes a device outside of its set fails, and nothing of it is left, although the
/// record of its error commits the same number.
#[test]
fn a_forgotten_device() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (contexts, rest) = split(region);
            let (number, rest) = last_committed(rest).unwrap_or_else(|r| panic!("{}", r.error));
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
