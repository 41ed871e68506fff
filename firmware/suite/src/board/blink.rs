//! Lamps and the timer that paces them: two devices whose contexts commit together, and calls that
//! fail in the middle.

use super::lamps::{Lamps, may_be_seen, shown};
use super::{TABLE, UNSAVED, committed, options, parts};
use crate::abi::bench::{EXPIRED, LIT, PERIOD, SEEN};
use crate::{Bench, Mapped, Scene, check, ok, progress};
use core::cell::Cell;
use nv_device::{Devices, Members, Restore, Set, Staged, StagedDevice, open};
use nv_replay::Replay;

/// The driver of the timer.
pub(super) struct Pace<'d>(Bench<'d>);

/// The timer does not do what it is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Broken;

impl Pace<'_> {
    fn set(&mut self, period: u16) {
        self.0.write(PERIOD, period);
    }

    /// Waits until it expires.
    pub fn wait(&mut self) -> Result<(), Broken> {
        for _ in 0..50 {
            if self.0.read(EXPIRED) != 0 {
                self.0.write(EXPIRED, 1);
                return Ok(());
            }
        }
        Err(Broken)
    }

    /// Fails when it has changed the timer already.
    fn fail(&mut self) -> Result<(), Broken> {
        self.set(1);
        Err(Broken)
    }
}

impl<'d> Restore for Pace<'d> {
    type Context = u16;
    type Parts = Bench<'d>;
    type Error = Broken;
    fn restore(bench: &mut Bench<'d>, period: &u16) -> Result<Self, Broken> {
        let mut pace = Pace(*bench);
        pace.set(*period);
        Ok(pace)
    }
}

/// The period after `n` steps.
fn period(n: u16) -> u16 {
    3 + n
}

struct Panel<'d, 'm, M: Mapped> {
    pace: StagedDevice<'m, Pace<'d>, M>,
    lamps: StagedDevice<'m, Lamps<'d>, M>,
    scene: &'d Scene<'d, M>,
    /// What the outside had seen when this boot began, until that is compared.
    seen: Cell<Option<u16>>,
}

impl<M: Mapped> Devices for Panel<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.pace, &self.lamps)
    }
}

/// Steps that wait for the timer, show the next number, and make the timer slower.
pub(super) fn blink<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (bug, last, region) = (scene.argument(), scene.rounds(3), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    check!(scene, bench.read(LIT) == 0 && bench.read(PERIOD) == 0);
    let seen = Cell::new(Some(bench.read(SEEN)));
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let (pace, lit) = ok!(
        scene,
        open::<(Staged<u16>, Staged<u8>), M>(contexts, committed, (period(0), 0))
    );
    let panel = Set::new(Panel {
        pace: StagedDevice::new(pace, bench),
        lamps: ok!(scene, StagedDevice::eager(lit, (bench, false))),
        scene,
        seen,
    });
    // The lamps are seen, so they are restored at once; the timer when it is used.
    check!(scene, bench.read(PERIOD) == 0);
    let mut rt = ok!(
        scene,
        Replay::<u32, M, _>::open_with(rest, options(TABLE), (), |_| Ok(0)).map_err(|r| r.error)
    );
    let blinked = rt.each_step_with(&panel, 0..last.into(), bug, |step, count, _, bug| {
        let panel = step.token();
        let (scene, bench) = (panel.scene, panel.scene.bench());
        let n = *count.get(step) as u16;
        if let Some(seen) = panel.seen.take() {
            check!(scene, may_be_seen(seen, n));
        }
        progress!(scene, n);
        if bug != UNSAVED {
            // A fault is a power cut of the timer alone.
            check!(scene, panel.pace.with(|pace, _| pace.fail()).is_err());
        }
        panel.pace.with(|pace, _| pace.wait())?;
        check!(scene, bench.read(LIT) == shown(n));
        check!(scene, bench.read(PERIOD) == period(n));
        *count.get_mut(step)? += 1;
        panel.lamps.change(step, |lit| *lit = shown(n + 1) as u8)?;
        if bug == UNSAVED {
            return Ok(panel.pace.with(|pace, _| {
                pace.set(period(n + 1));
                Ok(())
            })?);
        }
        Ok(panel.pace.change(step, |p| *p = period(n + 1))?)
    });
    ok!(scene, blinked);
    let n = ok!(scene, rt.step((), |step, count, ()| Ok(*count.get(step)))) as u16;
    progress!(scene, n);
    check!(scene, n == last && bench.read(LIT) == shown(n));
    if let Some(seen) = panel.seen.take() {
        check!(scene, may_be_seen(seen, n));
    }
    check!(
        scene,
        bug == UNSAVED || panel.pace.context() == Some(period(n))
    );
}
