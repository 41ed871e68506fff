//! What a pool tells a mirror: `nvmem::rest`.

use core::mem::MaybeUninit;
use nvmem::at_rest::AtRest;
use nvmem::{Maybe, Persist, Ram, Region};
use pmem_tx::{Config, Contexts, PBox, Pool, Ptr, Tx};

type Memory = [MaybeUninit<u64>; 64];

#[test]
fn a_journal_matters_only_while_a_transaction_is_open() {
    let mut memory: Memory = [MaybeUninit::new(0); 64];
    let base = memory.as_mut_ptr().cast::<u8>();
    let region = Region::<Ram>::new(&mut memory);
    let blank = |_: &Tx<'_, Ram>| Ok([0u32; 4]);
    let pool = Pool::<[u32; 4], Ram>::open_resolved(region, &Config::SMALL, |_| 0, blank);
    let mut pool = pool.unwrap();
    let rest = pool.resting(|region| region);
    assert_eq!((rest.base, rest.len), (base, 512));
    // The journal has 8 entries of two units and 64 bytes of old content; the marks follow.
    assert!(rest.scratch.start >= 128 && rest.scratch.len() >= 8 * 8 + 64);
    let mut context = pool.context();
    let open = context.prepare::<(), (), _>((), |tx, root, ()| {
        root.get_mut(tx)?[0] = 1;
        Ok(())
    });
    core::mem::forget(open.map_err(|f| f.error).unwrap());
    assert!(pool.resting(|region| region).scratch.is_empty());
}

/// Zeros in place of the scratch bytes change nothing.
#[test]
fn zeros_in_place_of_the_scratch_bytes() {
    let mut memory: Memory = [MaybeUninit::new(0); 64];
    let mut region = Region::<Ram>::new(&mut memory);
    let small = Config {
        seq_bits: 3,
        ..Config::SMALL
    };
    for n in 0..40 {
        let pool = Pool::<[u32; 4], Ram>::open_with(region, &small, |_| Ok([0; 4]));
        let mut pool = pool.unwrap();
        let found = pool.tx(|tx, root| {
            let v = root.get_mut(tx)?;
            v[1] += 1;
            Ok(v[1])
        });
        assert_eq!(found.unwrap(), n + 1);
        let rest = pool.resting(|region| region);
        for at in rest.scratch {
            // SAFETY: invariant "Sole region": inside the region, and the pool is at rest.
            unsafe { rest.base.add(at).write(0) };
        }
        region = pool.close();
    }
}

/// The journals matter while a transaction of any context is open.
#[test]
fn another_context_is_open() {
    let mut memory = [MaybeUninit::new(0); 128];
    let region = Region::<Ram>::new(&mut memory);
    let pool = Pool::<Contexts<(u32, u32)>, Ram>::open(region, |_| Ok((1, 2)));
    let mut pool = pool.map_err(|refused| refused.error).unwrap();
    let (mut first, mut second) = pool.contexts();
    assert!(!second.resting().scratch.is_empty());
    let seen = first.tx(|tx, n| {
        *n.get_mut(tx)? += 1;
        Ok(second.resting().scratch)
    });
    assert_eq!(seen, Ok(0..0));
    assert!(!second.resting().scratch.is_empty());
}

/// A value whose padding holds 0xA5.
fn stale(value: [u32; 3]) -> Maybe<[u32; 3]> {
    let mut bytes = MaybeUninit::<Maybe<[u32; 3]>>::uninit();
    let at = bytes.as_mut_ptr().cast::<u8>();
    // SAFETY: invariant "Checked before it is a value": the tag of `Some` and a value behind it, at
    // its alignment.
    unsafe {
        at.write_bytes(0xA5, 16);
        at.write(1);
        at.add(4).cast::<[u32; 3]>().write(value);
        bytes.assume_init()
    }
}

/// A pool that a saver reads may hold types with padding, if each is written as a whole. Under Miri
/// this reads no padding.
#[test]
fn a_value_that_is_set_leaves_no_padding() {
    #[derive(Persist)]
    #[repr(C)]
    struct Root<'p> {
        set: Maybe<[u32; 3]>,
        cell: Option<Ptr<'p, Maybe<[u32; 3]>>>,
        object: Option<PBox<'p, Maybe<[u32; 3]>>>,
    }
    let mut memory = [MaybeUninit::new(0); 128];
    let pool = Pool::<Root<'static>, Ram>::open(Region::new(&mut memory), |tx| {
        Ok(Root {
            set: stale([1; 3]),
            cell: Some(Ptr::new(tx, stale([2; 3]))?),
            object: Some(PBox::new(tx, stale([3; 3]))?),
        })
    });
    let mut pool = pool.map_err(|refused| refused.error).unwrap();
    let saved = |pool: &mut Pool<'_, Root<'static>, Ram>| {
        // SAFETY: invariant "Saved bytes have values": nothing uses the region meanwhile.
        pool.resting(|r| unsafe { core::slice::from_raw_parts(r.base, r.len) }.contains(&0xA5))
    };
    assert!(!saved(&mut pool));
    for n in 4..7 {
        let changed = pool.tx_with(n, |tx, root, n| {
            root.fields(tx).cell.write(stale([n + 1; 3]))?;
            root.fields(tx).set.set(stale([n; 3]))
        });
        changed.map_err(|f| f.error).unwrap();
        assert!(!saved(&mut pool), "{n}");
        let read = pool.tx(|tx, root| {
            let root = root.get(tx);
            let cell = root.cell.as_ref().map(|cell| cell.read(tx));
            let object = root.object.as_ref().map(|object| *object.get(tx));
            Ok((root.set.into_option(), cell, object))
        });
        let (set, cell, object) = read.unwrap();
        assert_eq!(set, Some([n; 3]));
        assert_eq!(cell.unwrap().into_option(), Some([n + 1; 3]));
        assert_eq!(object.unwrap().into_option(), Some([3; 3]));
    }
}
