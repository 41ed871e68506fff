//! RSA: a buffer of 128 bits is encrypted, by an engine in software.
//!
//! The engine is a driver without a device: its context is how far it has come. So a call of it
//! commits by itself, and a cut takes back one call.

use crate::rsa::Power;
use crate::{Found, Memory};
use core::convert::Infallible;
use nv_device::nvmem::{Persist, Region};
use nv_device::{Committed, Device, Own, Restore, bytes, open};

/// The engine.
struct Engine;

/// How far the power has come, and how many portions that took.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Progress {
    power: Power,
    portions: u16,
}

impl Progress {
    const NONE: Progress = Progress {
        power: Power::FIRST,
        portions: 0,
    };
}

impl Restore for Engine {
    type Context = Progress;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), _: &Progress) -> Result<Self, Infallible> {
        Ok(Engine)
    }
}

type Contexts = (Own<Progress>,);

/// With `nv-device`.
pub fn rsa(fram: Region<'static, Memory>) -> Option<Found> {
    let (fram, _) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let (progress,) = open::<Contexts, _>(fram, Committed::NOTHING, (Progress::NONE,)).ok()?;
    let mut engine = Device::<Engine, _>::new(progress, ());
    while engine.context().portions < Power::PORTIONS {
        let done = engine.at_least_once((), |engine, ()| {
            let progress = engine.context_mut();
            progress.power.go_on(progress.portions);
            progress.portions += 1;
            Ok(())
        });
        done.ok()?;
    }
    Some(engine.context().power.power)
}

/// Bare.
pub fn rsa_bare(_: Region<'static, Memory>) -> Option<Found> {
    let mut last = Power::FIRST;
    (0..Power::PORTIONS).for_each(|i| last.go_on(i));
    Some(last.power)
}
