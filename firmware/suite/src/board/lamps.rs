//! Lamps that count: what the outside sees is what is committed.

use super::{DIRECTION_FIRST, EARLY, TABLE, committed, options, parts};
use crate::abi::bench::{DIRECTION, LEDS, LIT, SEEN};
use crate::{Bench, Mapped, Scene, check, ok, progress};
use core::cell::Cell;
use core::convert::Infallible;
use nv_device::{
    Apply, Committed, Device, Devices, Members, Own, Restore, Set, Staged, StagedDevice, open,
};
use nv_replay::Replay;

/// A port with eight lamps.
pub(super) struct Lamps<'d>(Bench<'d>);

/// The bench, and whether the driver has a planted bug.
pub(super) type Port<'d> = (Bench<'d>, bool);

impl Lamps<'_> {
    fn show(&mut self, lit: u8) {
        self.0.write(LEDS, lit.into())
    }
}

impl<'d> Restore for Lamps<'d> {
    type Context = u8;
    type Parts = Port<'d>;
    type Error = Infallible;
    fn restore((bench, wrong): &mut Port<'d>, lit: &u8) -> Result<Self, Infallible> {
        let mut lamps = Lamps(*bench);
        // A port's outputs before its directions: else the outside sees what was in the register.
        if !*wrong {
            lamps.show(*lit);
        }
        bench.write(DIRECTION, 0xFF);
        if *wrong {
            lamps.show(*lit);
        }
        Ok(lamps)
    }
    fn apply(&mut self, lit: &u8) -> Result<Apply, Infallible> {
        self.show(*lit);
        Ok(Apply::Done)
    }
}

/// What the lamps show after `n` steps. Each number shows something else.
pub(super) fn shown(n: u16) -> u16 {
    (n * 37) & 0xFF
}

/// Whether the outside may have seen this, when `n` steps were committed at the last boot's end.
pub(super) fn may_be_seen(seen: u16, n: u16) -> bool {
    // A cut may come between the commit and the lamps.
    seen == shown(n) || n > 0 && seen == shown(n - 1)
}

struct Panel<'d, 'm, M: Mapped> {
    lamps: StagedDevice<'m, Lamps<'d>, M>,
    scene: &'d Scene<'d, M>,
    /// What the outside had seen when this boot began, until that is compared.
    seen: Cell<Option<u16>>,
}

impl<M: Mapped> Devices for Panel<'_, '_, M> {
    fn list(&self) -> impl Members {
        &self.lamps
    }
}

impl<M: Mapped> Panel<'_, '_, M> {
    /// So many steps are committed.
    fn agrees(&self, n: u16) {
        let (scene, bench) = (self.scene, self.scene.bench());
        if let Some(seen) = self.seen.take() {
            check!(scene, may_be_seen(seen, n));
        }
        check!(scene, bench.read(LIT) == shown(n));
        check!(scene, self.lamps.context().map(u16::from) == Some(shown(n)));
        progress!(scene, n);
    }
}

/// A counter in steps, and lamps that show it.
pub(super) fn counter<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (bug, last, region) = (scene.argument(), scene.rounds(4), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    check!(scene, bench.read(LIT) == 0 && bench.read(DIRECTION) == 0);
    let seen = Cell::new(Some(bench.read(SEEN)));
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let (lit,) = ok!(scene, open::<(Staged<u8>,), M>(contexts, committed, (0,)));
    let port = (bench, bug == DIRECTION_FIRST);
    let panel = Set::new(Panel {
        lamps: ok!(scene, StagedDevice::eager(lit, port)),
        scene,
        seen,
    });
    // Restored, before the application uses them.
    check!(
        scene,
        panel.lamps.context().map(u16::from) == Some(bench.read(LIT))
    );
    let mut rt = ok!(
        scene,
        Replay::<u32, M, _>::open_with(rest, options(TABLE), (), |_| Ok(0)).map_err(|r| r.error)
    );
    let counted = rt.each_step_with(&panel, 0..last.into(), bug, |step, count, _, bug| {
        let panel = step.token();
        let n = *count.get(step) as u16;
        panel.agrees(n);
        *count.get_mut(step)? += 1;
        let next = shown(n + 1) as u8;
        if bug == EARLY {
            return Ok(panel.lamps.at_least_once(step, |lamps| {
                lamps.driver().show(next);
                *lamps.context_mut() = next;
                Ok(())
            })?);
        }
        Ok(panel.lamps.change(step, |lit| *lit = next)?)
    });
    ok!(scene, counted);
    let n = ok!(scene, rt.step((), |step, count, ()| Ok(*count.get(step))));
    panel.agrees(n as u16);
    check!(scene, n as u16 == last);
}

/// Half a context of two units.
#[cfg(target_arch = "msp430")]
type Half = u16;
/// Half a context of two units.
#[cfg(not(target_arch = "msp430"))]
type Half = u32;

/// Lamps whose context is the number itself, in two halves that must agree.
struct Halves<'d>(Lamps<'d>);

impl<'d> Restore for Halves<'d> {
    type Context = [Half; 2];
    type Parts = Port<'d>;
    type Error = Infallible;
    fn restore(port: &mut Port<'d>, n: &[Half; 2]) -> Result<Self, Infallible> {
        Lamps::restore(port, &(shown(n[0] as u16) as u8)).map(Halves)
    }
    fn apply(&mut self, n: &[Half; 2]) -> Result<Apply, Infallible> {
        self.0.show(shown(n[0] as u16) as u8);
        Ok(Apply::Done)
    }
}

/// The same without steps: the context is what is counted.
pub(super) fn alone<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (last, region) = (scene.rounds(4), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    check!(scene, bench.read(LIT) == 0 && bench.read(DIRECTION) == 0);
    let seen = bench.read(SEEN);
    let contexts = open::<(Own<[Half; 2]>,), M>(region, Committed::NOTHING, ([0, !0],));
    let (lit,) = ok!(scene, contexts);
    let mut lamps = ok!(scene, Device::<Halves<'_>, M>::eager(lit, (bench, false)));
    let found = lamps.context()[0] as u16;
    check!(scene, may_be_seen(seen, found));
    loop {
        let [n, not] = *lamps.context();
        check!(scene, not == !n && bench.read(LIT) == shown(n as u16));
        progress!(scene, n as u16);
        if n as u16 >= last {
            break;
        }
        let changed = lamps.change((), |n, ()| {
            n[0] += 1;
            n[1] = !n[0];
        });
        ok!(scene, changed);
    }
}
