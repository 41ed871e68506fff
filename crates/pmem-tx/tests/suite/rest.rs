//! What a pool tells a mirror: `nvmem::rest`.

use core::mem::MaybeUninit;
use nvmem::at_rest::AtRest;
use nvmem::{InOrder32, Region};
use pmem_tx::{Config, Contexts, Pool, Tx};

type Memory = [MaybeUninit<u64>; 64];

#[test]
fn a_journal_matters_only_while_a_transaction_is_open() {
    let mut memory: Memory = [MaybeUninit::new(0); 64];
    let base = memory.as_mut_ptr().cast::<u8>();
    let region = Region::<InOrder32>::new(&mut memory);
    let blank = |_: &Tx<'_, InOrder32>| Ok([0u32; 4]);
    let pool = Pool::<[u32; 4]>::open_resolved(region, &Config::SMALL, |_| 0, blank);
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
    let mut region = Region::<InOrder32>::new(&mut memory);
    let small = Config {
        seq_bits: 3,
        ..Config::SMALL
    };
    for n in 0..40 {
        let pool = Pool::<[u32; 4]>::open_with(region, &small, |_| Ok([0; 4]));
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
    let region = Region::<InOrder32>::new(&mut memory);
    let pool = Pool::<Contexts<(u32, u32)>>::open(region, |_| Ok((1, 2)));
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
