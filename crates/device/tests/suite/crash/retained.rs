//! A clock with a battery keeps its registers through power cuts, so a call could be made twice.
//!
//! It keeps a number too, so a call that asks for it happens exactly once.

use crate::crash::chips::{Board, I2c};
use crate::crash::drivers::Clock;
use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::{InOrder32, Region};
use nv_device::{
    CallError, Committed, Device, Devices, Members, Own, Set, Staged, StagedDevice, open,
};
use powerfail::{Mapped, World, explore};

struct Clocks<'b, 'm, M: Tested>(StagedDevice<'m, Clock<'b>, M>);
impl<M: Tested> Devices for Clocks<'_, '_, M> {
    fn list(&self) -> impl Members {
        &self.0
    }
}

/// By itself, and with steps.
fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let board = Board::new(world);
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::SMALL);
    let (own, staged) =
        open::<(Own<u8>, Staged<u8>), _>(contexts, committed, (0, 3)).expect("opens");
    let mut clock = Device::<Clock<'_>, _>::new(own, I2c(&board));
    while *clock.context() < 3 {
        let done = clock.once((), |clock, number, ()| {
            clock.driver().0.set_aging_offset(number as i8)
        });
        done.expect("the call");
    }
    let clocks = Set::new(Clocks(StagedDevice::new(staged, I2c(&board))));
    let options = Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
        .unwrap_or_else(|r| panic!("{}", r.error));
    for i in 0..2 {
        rt.step_with(&clocks, i, |step, count, _| {
            *count.get_mut(step)? += 1;
            let clock = &step.token().0;
            let set = |clock: &mut nv_device::Call<'_, Clock<'_>, u8>, number| {
                clock.driver().0.set_aging_offset(number as i8)
            };
            clock.once(step, set)?;
            // After a cut the device would name this one only.
            let second = clock.once(step, set);
            assert!(matches!(second, Err(CallError::SecondOnce)));
            Ok(())
        })
        .expect("the step");
    }
    assert_eq!(clocks.0.context(), Some(5));
    let numbered = world.with(|w| w.numbered.clone());
    assert_eq!(numbered, (1..=5).map(|n| (n, 1)).collect());
}

fn run<M: Tested>() {
    explore(Mapped::<M>::new(BYTES), boot)
        .depth(2)
        .max_depth(2)
        .sample(16)
        .run();
}
on_each!(clock, run);

/// Without the number a cut between the device and the commit makes the call twice: the campaign
/// sees that.
#[test]
fn at_least_once_may_be_twice() {
    let found = explore(
        Mapped::<InOrder32>::new(256),
        |region: Region<'_, InOrder32>, world: &World<'_, Outside>| {
            let board = Board::new(world);
            let (own,) = open::<(Own<u8>,), _>(region, Committed::NOTHING, (0,)).expect("opens");
            let mut clock = Device::<Clock<'_>, _>::new(own, I2c(&board));
            while *clock.context() < 2 {
                let done = clock.at_least_once((), |clock, ()| {
                    *clock.context_mut() += 1;
                    let number = *clock.context();
                    clock.driver().0.set_aging_offset(number as i8)
                });
                done.expect("the call");
            }
            let most = world.with(|w| w.numbered.values().copied().max());
            assert_eq!(most, Some(1), "a call was made twice");
        },
    )
    .try_run();
    let failure = found.expect_err("a call that is made twice");
    assert!(failure.report().contains("a call was made twice"));
}
