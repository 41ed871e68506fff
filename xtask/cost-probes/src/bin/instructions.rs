//! What callgrind counts: each function is called once before, and once under the name that is
//! counted.

use cost_probes::{Probe, Steps, buffer, pool, steps};
use nvmem::{InOrder32, Region};
use pmem_tx::Error;
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = buffer();
    let mut pool = pool::<InOrder32>(&mut memory)?;
    update_8(&mut pool, 1)?;
    measure_update_8(black_box(&mut pool), black_box(2))?;
    assert_eq!(pool.tx(|tx, root| Ok(root.get(tx).eight))?, 2);

    let mut memory = buffer();
    let mut rt = steps::<InOrder32>(Region::new(&mut memory));
    for n in 0..3 {
        empty_step(&mut rt, n)?;
    }
    let mut rt = steps::<InOrder32>(rt.close());
    empty_step(&mut rt, 0)?;
    measure_bypass_step(black_box(&mut rt), 1)?;
    assert!(!rt.is_live(), "the step was bypassed");
    Ok(())
}

/// A step without result.
#[inline(always)]
fn empty_step(rt: &mut Steps<'_, InOrder32>, n: u32) -> Result<(), nv_replay::Error> {
    Ok(rt.named(n).step_own::<_, ()>((), |_, _, ()| Ok(()))?)
}

#[inline(never)]
fn measure_bypass_step(rt: &mut Steps<'_, InOrder32>, n: u32) -> Result<(), nv_replay::Error> {
    empty_step(rt, n)
}

/// A transaction that updates one resident object of 8 bytes.
#[inline(always)]
fn update_8(pool: &mut Probe<'_, InOrder32>, v: u64) -> Result<(), Error> {
    pool.tx(|tx, root| {
        *root.fields(tx).eight.get_mut()? = v;
        Ok(())
    })
}

#[inline(never)]
fn measure_update_8(pool: &mut Probe<'_, InOrder32>, v: u64) -> Result<(), Error> {
    update_8(pool, v)
}
