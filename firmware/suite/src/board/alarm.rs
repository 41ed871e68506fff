//! A clock with a battery: each alarm is set exactly once.

use super::{TABLE, UNASKED, committed, options, parts};
use crate::abi::bench::{ALARM, NUMBER, SETTINGS};
use crate::{Bench, Mapped, Scene, check, ok, progress};
use core::convert::Infallible;
use nv_device::{Devices, Keyed, Members, Once, Restore, Set, Staged, StagedDevice, open};
use nv_replay::Replay;

/// The driver of the clock.
struct Clock<'d>(Bench<'d>);

impl Clock<'_> {
    /// Sets the alarm, and its number.
    fn set(&mut self, alarm: u16, number: u16) {
        self.0.write(ALARM, alarm);
        self.0.write(NUMBER, number);
    }
}

impl<'d> Restore for Clock<'d> {
    /// The number of the last alarm. The clock keeps the rest.
    type Context = u16;
    type Parts = Bench<'d>;
    type Error = Infallible;
    fn restore(bench: &mut Bench<'d>, _: &u16) -> Result<Self, Infallible> {
        Ok(Clock(*bench))
    }
}

impl Keyed for Clock<'_> {
    type Key = u16;
    fn next(number: &u16) -> u16 {
        number + 1
    }
    fn last(&mut self) -> Result<u16, Infallible> {
        Ok(self.0.read(NUMBER))
    }
    fn advance(context: &mut u16, number: u16) {
        *context = number;
    }
}

struct Shelf<'d, 'm, M: Mapped> {
    clock: StagedDevice<'m, Clock<'d>, M>,
    scene: &'d Scene<'d, M>,
}

impl<M: Mapped> Devices for Shelf<'_, '_, M> {
    fn list(&self) -> impl Members {
        &self.clock
    }
}

/// The `n`-th alarm.
fn time(n: u16) -> u16 {
    n * 300
}

impl<M: Mapped> Shelf<'_, '_, M> {
    /// So many alarms are committed. `ahead`: the step of the next one may have been cut.
    fn agrees(&self, n: u16, ahead: bool) {
        let (scene, bench) = (self.scene, self.scene.bench());
        let set = bench.read(NUMBER);
        check!(scene, set == n || ahead && set == n + 1);
        check!(
            scene,
            bench.read(SETTINGS) == set && bench.read(ALARM) == time(set)
        );
        progress!(scene, n);
    }
}

/// Steps that set an alarm each.
pub(super) fn alarm<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (bug, last, region) = (scene.argument(), scene.rounds(4), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let (alarm,) = ok!(scene, open::<(Staged<u16>,), M>(contexts, committed, (0,)));
    let shelf = Set::new(Shelf {
        clock: StagedDevice::new(alarm, bench),
        scene,
    });
    let mut rt = ok!(
        scene,
        Replay::<u32, M, _>::open_with(rest, options(TABLE), (), |_| Ok(0)).map_err(|r| r.error)
    );
    let set = rt.each_step_with(&shelf, 0..last.into(), bug, |step, count, _, bug| {
        let shelf = step.token();
        let n = *count.get(step) as u16;
        shelf.agrees(n, true);
        *count.get_mut(step)? += 1;
        let clock = &shelf.clock;
        if bug == UNASKED {
            return Ok(clock.at_least_once(step, |clock| {
                *clock.context_mut() += 1;
                let number = *clock.context();
                clock.driver().set(time(number), number);
                Ok(())
            })?);
        }
        match clock.once(step, |clock, number| {
            clock.driver().set(time(number), number);
            Ok(())
        })? {
            Once::Done(()) | Once::DoneBefore => Ok(()),
        }
    });
    ok!(scene, set);
    let n = ok!(scene, rt.step((), |step, count, ()| Ok(*count.get(step))));
    shelf.agrees(n as u16, false);
    check!(
        scene,
        n as u16 == last && shelf.clock.context() == Some(last)
    );
}
