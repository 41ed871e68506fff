//! Types with padding over a mirror: what the medium gets there are zeros. Under Miri, for which
//! padding has no value, these tests show that no save reads any. The memory begins uninitialised.

use crate::asynch::{Slow, done};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Mirror, asynch};
use nvmem::ram::{RamFram, RamNor};
use nvmem::{InOrder32, Maybe, Medium, Persist, Ram, Region};
use pmem_tx::{PBox, Pool, Ptr};

type Memory = [MaybeUninit<u64>; 2 * 80];
const MEMORY: Memory = [MaybeUninit::uninit(); 2 * 80];
const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};

type Reading = Maybe<[u32; 3]>;

/// The root has no padding of its own, and fields that have some.
#[derive(Persist)]
#[repr(C)]
struct Root<'p> {
    reading: Reading,
    count: u32,
    cell: Option<Ptr<'p, Reading>>,
    object: Option<PBox<'p, Reading>>,
    numbers: Option<PBox<'p, [u32; 3]>>,
}

type Opened<'m> = Pool<'m, Root<'static>, Ram>;

/// A value whose padding holds 0xA5.
fn stale(n: u32) -> Reading {
    let mut bytes = MaybeUninit::<Reading>::uninit();
    let at = bytes.as_mut_ptr().cast::<u8>();
    // SAFETY: invariant "Checked before it is a value": the tag of `Some` and a value behind it, at
    // its alignment.
    unsafe {
        at.write_bytes(0xA5, 16);
        at.write(1);
        at.add(4).cast::<[u32; 3]>().write([n; 3]);
        bytes.assume_init()
    }
}

fn open(region: Region<'_, Ram>) -> Opened<'_> {
    Pool::open_with(region, &pmem_tx::Config::SMALL, |tx| {
        Ok(Root {
            reading: stale(0),
            count: 0,
            cell: Some(Ptr::new(tx, stale(0))?),
            object: Some(PBox::new(tx, stale(0))?),
            numbers: Some(PBox::new(tx, [0; 3])?),
        })
    })
    .unwrap()
}

/// Checks what the boot before has saved, and writes each kind of value.
fn change(pool: &mut Opened<'_>, n: u32) {
    let found = pool.tx(|tx, root| {
        let root = root.get(tx);
        let cell = root.cell.as_ref().and_then(|c| c.read(tx).into_option());
        let object = root.object.as_ref().and_then(|o| o.get(tx).into_option());
        let numbers = root.numbers.as_ref().map(|b| *b.get(tx));
        let reading = root.reading.into_option();
        Ok([reading, cell, object, numbers, Some([root.count; 3])])
    });
    assert_eq!(found.unwrap(), [Some([n; 3]); 5]);
    let changed = pool.tx_with(n + 1, |tx, root, n| {
        let object = PBox::new(tx, stale(n))?;
        let mut fields = root.fields(tx);
        fields.reading.set(stale(n))?;
        fields.cell.write(stale(n))?;
        *fields.count.get_mut()? = n;
        if let Some(old) = fields.object.get_mut()?.replace(object) {
            old.free(tx)?;
        }
        if let Some(numbers) = fields.numbers.get_mut()? {
            *numbers.get_mut(tx)? = [n; 3];
        }
        Ok(())
    });
    changed.map_err(|f| f.error).unwrap();
}

fn holds_stale(bytes: &[u8]) -> bool {
    bytes.windows(3).any(|gap| gap == [0xA5; 3])
}

fn boots<D: Medium>(nv: &mut D) {
    for n in 0..if cfg!(miri) { 2 } else { 5 } {
        let (mut memory, all) = (MEMORY, 0..nv.capacity());
        let (mut mirror, region) =
            Mirror::open::<InOrder32>(&mut *nv, all, &THREE, &mut memory).unwrap();
        let mut pool = open(region);
        mirror.durable(&mut pool).unwrap();
        change(&mut pool, n);
        mirror.durable(&mut pool).unwrap();
        let room = mirror.room();
        mirror.durable(&mut pool).unwrap();
        assert_eq!(mirror.room(), room, "nothing has changed");
        // The journal counts here: no pool says that it is not needed.
        mirror.durable(&mut pool.close()).unwrap();
    }
}

#[test]
fn a_pool_with_padding_is_saved_with_zeros_there() {
    let mut fram = RamFram::<4096>::filled(0);
    boots(&mut fram);
    assert!(!holds_stale(fram.bytes()));
    if cfg!(miri) {
        return;
    }
    let mut nor = RamNor::<3, 2048, 4>::new();
    boots(&mut nor);
    assert!(!holds_stale(nor.bytes()));
}

#[test]
fn an_async_mirror_does_the_same() {
    let mut nv = Slow(RamNor::<3, 2048, 4>::new());
    for n in 0..if cfg!(miri) { 2 } else { 5 } {
        let mut memory = MEMORY;
        let opened = asynch::Mirror::open::<InOrder32>(&mut nv, 0..3 * 2048, &THREE, &mut memory);
        let (mut mirror, region) = done(opened).unwrap();
        let mut pool = open(region);
        change(&mut pool, n);
        done(mirror.durable(&mut pool)).unwrap();
        done(mirror.durable(&mut pool.close())).unwrap();
    }
    assert!(!holds_stale(nv.0.bytes()));
}
