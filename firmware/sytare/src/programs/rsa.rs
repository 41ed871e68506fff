//! RSA: a buffer of 128 bits is encrypted. No device takes part.
//!
//! The power so far is persistent, and a step computes a portion of the next one.

use crate::rsa::{Number, Power};
use crate::{Found, Memory};
use nv_device::nv_replay::{Config, Error, Options, Replay};
use nv_device::nvmem::{Persist, Region};

/// Bytes of FRAM.
const BYTES: usize = 512;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Kept {
    power: Number,
    product: Number,
}

const FIRST: Kept = {
    let Power { power, product } = Power::FIRST;
    Kept { power, product }
};

const TABLE: Config = Config {
    bytes: 32,
    outbox_bytes: 0,
    seq_bits: 8,
};

fn program(rt: &mut Replay<'_, Kept, Memory>) -> Result<(), Error> {
    rt.each_step(0..Power::PORTIONS.into(), (), |tx, kept, i, ()| {
        let Kept { power, product } = *kept.get(tx);
        let mut next = Power { power, product };
        next.go_on(i as u16);
        let mut kept = kept.fields(tx);
        *kept.product.get_mut()? = next.product;
        if next.power != power {
            *kept.power.get_mut()? = next.power;
        }
        Ok(())
    })
}

/// With steps.
pub fn rsa(fram: Region<'static, Memory>) -> Option<Found> {
    let (fram, _) = fram.split_at(BYTES).ok()?;
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = Replay::open(fram, options, |_| Ok(FIRST)).ok()?;
    program(&mut rt).ok()?;
    rt.view(|tx, kept| kept.get(tx).power).ok()?
}

/// Bare.
pub fn rsa_bare(_: Region<'static, Memory>) -> Option<Found> {
    let mut last = Power::FIRST;
    (0..Power::PORTIONS).for_each(|i| last.go_on(i));
    Some(last.power)
}
