//! On a host: what of a medium each crate keeps for itself, in bytes, for atomic units of 4 and of
//! 2 bytes.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
size_probes::probe!({
    core::hint::black_box(0);
});

#[cfg(not(target_os = "none"))]
fn main() {
    use nvmem::{InOrder16, InOrder32, Superblock};
    for unit in [2, 4] {
        println!("nvmem {unit} {}", Superblock::BYTES);
    }
    println!("pmem-tx 2 {}", host::pool::<InOrder16>());
    println!("pmem-tx 4 {}", host::pool::<InOrder32>());
    println!("nvlist 2 {}", host::lists::<InOrder16>());
    println!("nvlist 4 {}", host::lists::<InOrder32>());
    println!("nv-replay 2 {}", host::replay::<InOrder16>());
    println!("nv-replay 4 {}", host::replay::<InOrder32>());
}

#[cfg(not(target_os = "none"))]
mod host {
    use nv_replay::{Options, Replay};
    use nvlist::NodePool;
    use nvmem::{Model, Region};
    use pmem_tx::{Audit, Pool, Width};
    use size_probes::BYTES;
    use std::mem::MaybeUninit;

    fn buffer() -> Vec<MaybeUninit<u64>> {
        vec![MaybeUninit::new(0); BYTES / 8]
    }

    /// All that is neither an object nor free.
    fn rest(audit: Audit) -> usize {
        BYTES - audit.used - audit.free
    }

    pub fn pool<M: Model>() -> usize
    where
        M::Unit: Width,
    {
        let mut words = buffer();
        match Pool::<u32, M>::open(Region::new(&mut words), |_| Ok(0)) {
            Ok(mut pool) => pool.audit().map_or(0, rest),
            Err(_) => 0,
        }
    }

    /// All that is not the content of a node.
    pub fn lists<M: Model>() -> usize {
        let mut words = buffer();
        match NodePool::<[u32; 2], 2, M>::open(Region::new(&mut words)) {
            Ok(mut pool) => pool
                .audit()
                .map_or(0, |a| BYTES - a.free * size_of::<[u32; 2]>()),
            Err(_) => 0,
        }
    }

    pub fn replay<M: Model>() -> usize
    where
        M::Unit: Width,
    {
        let mut words = buffer();
        match Replay::<u32, M>::open(Region::new(&mut words), Options::default(), |_| Ok(0)) {
            Ok(rt) => rt.audit().map_or(0, |(audit, _)| rest(audit)),
            Err(_) => 0,
        }
    }
}
