//! What the measuring programs share: a pool with something of each kind in its root, and a program
//! in steps.

use nv_replay::{Options, Replay};
use nvmem::{Model, Persist, Region};
use pmem_tx::{Error, Pool, Ptr, Width};
use std::mem::MaybeUninit;

/// The root.
#[derive(Persist)]
#[repr(C)]
pub struct Top<'p, W: Width> {
    /// A resident object of 8 bytes.
    pub eight: u64,
    /// A resident object of 64 bytes.
    pub sixty_four: [u64; 8],
    /// A cell of two versions.
    pub cell: Option<Ptr<'p, u64, W>>,
}

/// A pool with such a root.
pub type Probe<'m, M> = Pool<'m, Top<'static, <M as Model>::Unit>, M>;

/// A buffer for it.
pub fn buffer() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 1024]
}

/// Formats a pool.
pub fn pool<M: Model>(buffer: &mut [MaybeUninit<u64>]) -> Result<Probe<'_, M>, Error>
where
    M::Unit: Width,
{
    Probe::<M>::open(Region::new(buffer), |tx| {
        Ok(Top {
            eight: 0,
            sixty_four: [0; 8],
            cell: Some(Ptr::new(tx, 1)?),
        })
    })
    .map_err(|e| panic!("a blank region is formatted: {}", e.error))
}

/// A replayed program whose persistent data is one number.
pub type Steps<'m, M> = Replay<'m, u32, M>;

/// Opens its memory, or formats it.
pub fn steps<M: Model>(region: Region<'_, M>) -> Steps<'_, M>
where
    M::Unit: Width,
{
    match Replay::open(region, Options::default(), |_| Ok(0)) {
        Ok(rt) => rt,
        Err(e) => panic!("a blank region is formatted, and opens again: {}", e.error),
    }
}
