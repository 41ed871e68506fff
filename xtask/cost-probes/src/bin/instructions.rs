//! What callgrind counts: each function is called once before, and once under the name that is counted.

use cost_probes::{Probe, buffer, pool};
use nvmem::InOrder32;
use pmem_tx::Error;
use std::hint::black_box;

fn main() -> Result<(), Error> {
    let mut memory = buffer();
    let mut pool = pool::<InOrder32>(&mut memory)?;
    update_8(&mut pool, 1)?;
    measure_update_8(black_box(&mut pool), black_box(2))?;
    assert_eq!(pool.tx(|tx, root| Ok(root.get(tx).eight))?, 2);
    Ok(())
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
