//! What calls of `nv-device` cost: one lamp of a port is switched.

use crate::abi::section;
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use core::cell::Cell;
use core::convert::Infallible;
use core::hint::black_box;
use nv_device::{
    Apply, CallStack, Committed, Device, Devices, Events, Members, Own, Posted, Restore, Ring, Set,
    StackBytes, Staged, StagedDevice, open,
};
use nv_replay::{Config, Options, Replay, last_committed};

/// The scenarios of the image `device-costs`.
pub const fn costs_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "device-costs",
            primitive: "nv-device",
            scenarios: &[Scenario::measuring("measure", 2048, measure)],
        }
    }
}

/// A register of eight lamps.
struct Lamps<'p>(&'p Cell<u8>);

impl<'p> Restore for Lamps<'p> {
    type Context = u8;
    type Parts = &'p Cell<u8>;
    type Error = Infallible;
    fn restore(port: &mut &'p Cell<u8>, lit: &u8) -> Result<Self, Infallible> {
        port.set(*lit);
        Ok(Lamps(port))
    }
    #[inline(always)]
    fn apply(&mut self, lit: &u8) -> Result<Apply, Infallible> {
        self.0.set(*lit);
        Ok(Apply::Done)
    }
}

/// Half a context of two units.
#[cfg(target_arch = "msp430")]
type Half = u16;
#[cfg(not(target_arch = "msp430"))]
type Half = u32;

/// The same with a context of two units.
struct Long<'p>(&'p Cell<u8>);

impl<'p> Restore for Long<'p> {
    type Context = [Half; 2];
    type Parts = &'p Cell<u8>;
    type Error = Infallible;
    fn restore(port: &mut &'p Cell<u8>, lit: &[Half; 2]) -> Result<Self, Infallible> {
        port.set(lit[0] as u8);
        Ok(Long(port))
    }
    #[inline(always)]
    fn apply(&mut self, lit: &[Half; 2]) -> Result<Apply, Infallible> {
        self.0.set(lit[0] as u8);
        Ok(Apply::Done)
    }
}

struct Board<'p, 'm, M> {
    lamps: StagedDevice<'m, Lamps<'p>, M>,
    button: Events<'m, 8, M>,
}

impl<M: Mapped> Devices for Board<'_, '_, M> {
    #[inline(always)]
    fn list(&self) -> impl Members {
        (&self.lamps, &self.button)
    }
}

// Each is measured from its first instruction to its return.

#[inline(never)]
fn bare_toggle<M: Mapped>(port: &Cell<u8>) {
    Scene::<'static, M>::next_section_anywhere(section::DEVICE_BARE);
    port.set(port.get() ^ 1)
}

#[inline(never)]
fn own_toggle<M: Mapped>(lamps: &mut Device<'_, Lamps<'_>, M>) -> bool {
    Scene::<'static, M>::next_section_anywhere(section::DEVICE_OWN);
    lamps.change((), |lit, ()| *lit ^= 1).is_ok()
}

#[inline(never)]
fn long_toggle<M: Mapped>(lamps: &mut Device<'_, Long<'_>, M>) -> bool {
    Scene::<'static, M>::next_section_anywhere(section::DEVICE_OWN_LONG);
    lamps.change((), |lit, ()| lit[0] ^= 1).is_ok()
}

#[inline(never)]
fn stack_toggle<M: Mapped>(
    calls: &mut CallStack<'_>,
    lamps: &mut Device<'_, Lamps<'_>, M>,
) -> bool {
    Scene::<'static, M>::next_section_anywhere(section::DEVICE_OWN_STACK);
    calls.run(|| lamps.change((), |lit, ()| *lit ^= 1)).is_ok()
}

#[inline(never)]
fn post<M: Mapped>(button: &Events<'_, 8, M>) -> bool {
    Scene::<'static, M>::next_section_anywhere(section::DEVICE_TOP_HALF);
    button.post(3) == Posted::Stored
}

fn measure<M: Mapped>(scene: &mut Scene<'_, M>) {
    const TABLE: Config = Config::SMALL;
    let port = Cell::new(0);
    let port = black_box(&port);
    let Ok((contexts, rest)) = scene.region().split_at(512) else {
        check!(scene, false);
        return;
    };
    let number = ok!(scene, last_committed(&rest));
    let (lit, long, staged, button) = ok!(
        scene,
        open::<(Own<u8>, Own<[Half; 2]>, Staged<u8>, Ring<8>), M>(
            contexts,
            Committed::of(number, &TABLE),
            (0, [0; 2], 0, ()),
        )
    );
    let mut lamps = ok!(scene, Device::<Lamps<'_>, M>::eager(lit, port));
    let mut long = ok!(scene, Device::<Long<'_>, M>::eager(long, port));
    let set = Set::new(Board {
        lamps: ok!(scene, StagedDevice::eager(staged, port)),
        button,
    });
    let mut bytes = StackBytes::<256>::NEW;
    let mut calls = CallStack::new(&mut bytes);
    // Events of boots that were cut. If they are many, they fill the ring, or some are left.
    let before = set.button.waiting();
    for _ in 0..2 {
        bare_toggle::<M>(port);
        scene.end_section();
        let own = own_toggle(&mut lamps);
        scene.end_section();
        let aside = stack_toggle(&mut calls, &mut lamps);
        scene.end_section();
        let two = long_toggle(&mut long);
        scene.end_section();
        let posted = post(&set.button);
        scene.end_section();
        check!(scene, own && aside && two && (posted || before > 6));
    }
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = ok!(
        scene,
        Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0)).map_err(|r| r.error)
    );
    let all = rt.is_live() && before <= 2;
    let alone = rt.each_step(0..4, (), |_, _, _, ()| {
        Scene::<'static, M>::next_section_anywhere(section::DEVICE_NO_SET);
        Ok(())
    });
    scene.end_section();
    let plain = rt.each_step_with(&set, 0..4, (), |_, _, _, ()| {
        Scene::<'static, M>::next_section_anywhere(section::DEVICE_STEP);
        Ok(())
    });
    scene.end_section();
    let staged = rt.each_step_with(&set, 0..4, (), |step, _, _, ()| {
        Scene::<'static, M>::next_section_anywhere(section::DEVICE_STAGED);
        Ok(step.token().lamps.change(step, |lit| *lit ^= 1)?)
    });
    scene.end_section();
    let handled = rt.each_step_with(&set, 0..4, (), |step, count, _, ()| {
        Scene::<'static, M>::next_section_anywhere(section::DEVICE_EVENT);
        if let Some(event) = step.token().button.take(step)? {
            *count.get_mut(step)? += event.value;
        }
        Ok(())
    });
    scene.end_section();
    check!(scene, alone.is_ok() && plain.is_ok());
    check!(scene, staged.is_ok() && handled.is_ok());
    check!(scene, !all || set.button.waiting() == 0);
}
