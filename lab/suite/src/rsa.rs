//! An engine that encrypts: a driver without a device, whose context is how far it has come.

use core::convert::Infallible;
use nv_device::nvmem::Persist;
use nv_device::{Committed, Device, Own, Restore, open};
use relume_suite::{Group, Mapped, Scenario, Scene, check, ok, progress};

#[allow(dead_code)] // the whole exponent takes too long here
#[path = "../../sytare/src/rsa.rs"]
mod power;
use power::Power;

/// The scenarios of the image `device-rsa`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "device-rsa",
            primitive: "nv-device",
            scenarios: &[Scenario::new("rsa", 256, rsa)],
        }
    }
}

/// The engine.
struct Engine;

/// How far the power has come, and how many portions that took.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Progress {
    power: Power,
    portions: u16,
}

impl Restore for Engine {
    type Context = Progress;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), _: &Progress) -> Result<Self, Infallible> {
        Ok(Engine)
    }
}

/// Calls that each make a portion, and commit by themselves.
fn rsa<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (last, region) = (scene.rounds(3), scene.region());
    let scene = &*scene;
    let first = Progress {
        power: Power::FIRST,
        portions: 0,
    };
    let (progress,) = ok!(
        scene,
        open::<(Own<Progress>,), M>(region, Committed::NOTHING, (first,))
    );
    let mut engine = Device::<Engine, M>::new(progress, ());
    // No portion is missing, and none was made twice.
    let mut expected = first;
    while expected.portions < engine.context().portions {
        portion(&mut expected);
    }
    loop {
        let Progress { power, portions } = *engine.context();
        check!(scene, power == expected.power);
        progress!(scene, portions);
        if portions >= last {
            break;
        }
        let made = engine.at_least_once((), |engine, ()| {
            portion(engine.context_mut());
            Ok(())
        });
        ok!(scene, made);
        portion(&mut expected);
    }
}

fn portion(p: &mut Progress) {
    p.power.go_on(p.portions);
    p.portions += 1;
}
