//! RSA: a buffer of 128 bits is encrypted. No device takes part.
//!
//! The power so far is persistent, and a step computes a portion of the next one.

use crate::rsa::{Power, number, words};
use crate::{Found, Memory};
use nv_device::nv_replay::{Config, Error, Options, Replay};
use nv_device::nvmem::{Persist, Region};

/// Bytes of FRAM.
const BYTES: usize = 512;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Kept {
    power: [u16; 8],
    product: [u16; 8],
}

impl From<Power> for Kept {
    fn from(p: Power) -> Self {
        Kept { power: words(p.power), product: words(p.product) }
    }
}

const TABLE: Config = Config { bytes: 32, outbox_bytes: 0, seq_bits: 8 };

fn program(rt: &mut Replay<'_, Kept, Memory>) -> Result<(), Error> {
    rt.each_step(0..Power::PORTIONS, (), |tx, kept, i, ()| {
        let Kept { power, product } = *kept.get(tx);
        let before = Power { power: number(power), product: number(product) };
        let after = Kept::from(before.next(i));
        let mut kept = kept.fields(tx);
        *kept.product.get_mut()? = after.product;
        if after.power != power {
            *kept.power.get_mut()? = after.power;
        }
        Ok(())
    })
}

/// With steps.
pub fn rsa(fram: Region<'static, Memory>) -> Option<Found> {
    let (fram, _) = fram.split_at(BYTES).ok()?;
    let options = Options { table: TABLE, ..Options::default() };
    let mut rt = Replay::open(fram, options, |_| Ok(Power::FIRST.into())).ok()?;
    program(&mut rt).ok()?;
    rt.view(|tx, kept| kept.get(tx).power).ok()?
}

/// Bare.
pub fn rsa_bare(_: Region<'static, Memory>) -> Option<Found> {
    let last = (0..Power::PORTIONS).fold(Power::FIRST, Power::next);
    Some(words(last.power))
}
