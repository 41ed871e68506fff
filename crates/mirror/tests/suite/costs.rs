//! What a step costs: a pool with a struct of 64 bytes. Each of a thousand steps changes 8 of them.

use crate::support::Counting;
use core::mem::MaybeUninit;
use nv_mirror::{Config, Durability, Mirror};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{InOrder32, Ram};
use pmem_tx::Pool;

const STEPS: u32 = 1000;

#[derive(Debug)]
struct Cost {
    /// Bytes written in a thousand steps.
    bytes: u64,
    erases: u64,
    /// Bytes that the next open reads.
    open: u64,
}

fn cost<D: Medium>(medium: D, segments: u8, durability: Durability) -> Cost {
    let mut nv = Counting {
        medium,
        written: 0,
        read: 0,
        erases: 0,
    };
    let config = Config {
        segments,
        durability,
    };
    let all = 0..nv.capacity();
    let mut memory = [MaybeUninit::new(0); 2 * 64];
    let (mut mirror, region) = Mirror::open(&mut nv, all.clone(), &config, &mut memory).unwrap();
    let small = pmem_tx::Config::SMALL;
    let mut pool = Pool::<[u32; 16], Ram>::open_with(region, &small, |_| Ok([0; 16])).unwrap();
    mirror.durable(&mut pool).unwrap();
    let before = (mirror.medium_mut().written, mirror.medium_mut().erases);
    for n in 0..STEPS {
        pool.tx_with(n, |tx, v, n| {
            let at = n as usize % 8 * 2;
            let mut v = v.slot(tx);
            *v.at_mut(at)? = n + 1;
            *v.at_mut(at + 1)? = !n;
            Ok(())
        })
        .map_err(|f| f.error)
        .unwrap();
        mirror.committed(&mut pool).unwrap();
    }
    mirror.durable(&mut pool).unwrap();
    let (bytes, erases) = (nv.written - before.0, nv.erases - before.1);
    nv.read = 0;
    let mut memory = [MaybeUninit::new(0); 2 * 64];
    Mirror::open::<InOrder32>(&mut nv, all, &config, &mut memory).unwrap();
    Cost {
        bytes,
        erases,
        open: nv.read,
    }
}

/// The bounds are what was measured, and a little more.
#[test]
#[cfg_attr(miri, ignore = "thousands of saves")]
fn a_thousand_steps() {
    let fram = cost(RamFram::<16384>::filled(0), 2, Durability::EachCommit);
    println!("serial FRAM {fram:?}");
    // 28 bytes, and base images.
    assert!((28_000..29_000).contains(&fram.bytes), "{fram:?}");
    // The headers and one segment of 8 KiB at most.
    assert!(fram.open <= 2 * 24 + 8192, "{fram:?}");
    let mram = cost(RamMram::<16384>::filled(0), 2, Durability::EachCommit);
    println!("MRAM {mram:?}");
    assert!((32_000..33_500).contains(&mram.bytes), "{mram:?}");
    let nrf52 = || RamNor::<3, 4096, 4>::new();
    let each = cost(nrf52(), 3, Durability::EachCommit);
    println!("nRF52, each commit {each:?}");
    assert!(each.bytes < 30_000 && each.erases <= 8, "{each:?}");
    assert!(each.open <= 3 * 32 + 4096, "{each:?}");
    let tenth = cost(nrf52(), 3, Durability::Every(10));
    println!("nRF52, each tenth commit {tenth:?}");
    assert!(tenth.bytes < 9_000 && tenth.erases <= 2, "{tenth:?}");
}
