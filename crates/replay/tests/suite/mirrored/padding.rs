//! Values with padding in a runtime and in lists over one mirror: the medium gets zeros there.
//! Under Miri, for which padding has no value, this shows that no save reads any. The memory begins
//! uninitialised.

use super::media::config;
use super::node::PORT;
use core::mem::MaybeUninit;
use nv_mirror::{Durability, Mirror};
use nv_replay::nvmem::at_rest::Beside;
use nv_replay::nvmem::ram::RamFram;
use nv_replay::nvmem::{InOrder32, Maybe, Persist, Ram};
use nv_replay::{Message, MirroredReplay, NotNow, Options, Outlet, pmem_tx};
use nvlist::NodePool;

const LISTS: usize = 256;

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Sample {
    value: [u32; 3],
    on: bool,
}

#[derive(Persist)]
#[repr(C)]
struct Root {
    last: Maybe<Sample>,
    count: u32,
}

struct Sink(u32);
impl Outlet for Sink {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        self.0 = m.get(&PORT).expect("the port").expect("a number");
        Ok(())
    }
}

type Rt<'m, S> = MirroredReplay<'m, Root, S, InOrder32, Sink>;

/// A value whose padding holds 0xA5.
fn stale(n: u32) -> Sample {
    let mut bytes = MaybeUninit::<Sample>::uninit();
    let at = bytes.as_mut_ptr();
    // SAFETY: invariant "Checked before it is a value": both fields are written.
    unsafe {
        at.cast::<u8>().write_bytes(0xA5, size_of::<Sample>());
        (&raw mut (*at).value).write([n; 3]);
        (&raw mut (*at).on).write(true);
        bytes.assume_init()
    }
}

#[test]
fn a_runtime_and_lists_save_zeros_for_padding() {
    let mut chip = RamFram::<8192>::filled(0);
    for boot in 0..3u32 {
        let mut memory = [MaybeUninit::uninit(); 2 * 128];
        let config = config(2, Durability::EachCommit);
        let opened = Mirror::open::<InOrder32>(&mut chip, 0..8192, &config, &mut memory);
        let (mirror, region) = opened.unwrap();
        let (lists, table) = region.split_at(LISTS).ok().unwrap();
        let mut pool = NodePool::<Sample, 1, Ram>::open(lists)
            .map_err(|refused| refused.error)
            .unwrap();
        let found = pool.with(|mut lists, [list]| {
            let found: Vec<Sample> = lists.iter(list).copied().collect();
            let mut node = lists.alloc(stale(9)).unwrap();
            lists.edit(&mut node, |sample| *sample = stale(boot));
            lists.link_back(list, node);
            found
        });
        assert_eq!(found, (0..boot).map(stale).collect::<Vec<_>>());
        let options = Options {
            table: nv_replay::Config {
                bytes: 160,
                outbox_bytes: 16,
                seq_bits: 8,
            },
            pool: Some(pmem_tx::Config::SMALL),
            ..Options::default()
        };
        // SAFETY: the lists lie before the table, in one region; `pool.with` has returned whenever
        // the runtime saves.
        let saver = unsafe { Beside::new(mirror, LISTS, 0) };
        let root = |_: &pmem_tx::Tx<'_, Ram>| {
            let last = Maybe::Some(stale(7));
            Ok(Root { last, count: 0 })
        };
        let mut rt = Rt::open_mirrored(table, saver, options, Sink(0), root)
            .map_err(|refused| refused.error)
            .unwrap();
        // All of this runs in the first boot, and is replayed in the later ones.
        let sample = rt.record_with(|| stale(boot + 1)).unwrap();
        let old = rt
            .step(sample, |tx, root, sample| {
                let old = root.get(tx).last;
                let mut fields = root.fields(tx);
                fields.last.set(Maybe::Some(sample))?;
                *fields.count.get_mut()? += 1;
                tx.send(&PORT, *fields.count.get())?;
                Ok(old)
            })
            .unwrap();
        assert_eq!((sample, old), (stale(1), Maybe::Some(stale(7))));
        rt.step((), |tx, root, ()| {
            let count = root.get(tx).count;
            tx.send(&PORT, count)
        })
        .unwrap();
        rt.durable().unwrap();
    }
    let gap = |bytes: &[u8]| bytes.windows(3).any(|gap| gap == [0xA5; 3]);
    assert!(!gap(chip.bytes()));
}
