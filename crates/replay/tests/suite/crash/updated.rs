//! A new version of the program opens the records of the old one, under cuts.

use super::programs::*;
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Error, Held, Options, PBox, Update};
use powerfail::{Mapped, explore_with};
use std::mem::MaybeUninit;

const BYTES: usize = 2048;

type H<M> = Held<Item<'static, <M as Model>::Unit>, <M as Model>::Unit>;

/// Both versions begin with an object, a loop that has ended and a failed step; then they differ.
fn program<M: Model>(rt: &mut Rt<'_, M>, version: u16) -> Result<(), Error>
where
    M::Unit: Width,
{
    let h = rt
        .named(1)
        .step_own::<_, H<M>>((), |tx, _, ()| PBox::new(tx, Item { v: 40, next: None }))?;
    rt.named(2).each_with(0..3, (), |rt, _, ()| {
        rt.step((), |tx, t, ()| {
            *t.fields(tx).sum.get_mut()? += 1;
            Ok(())
        })?;
        Ok(())
    })?;
    let r = rt
        .named(3)
        .step_own::<_, u8>((), |tx, _, ()| Err(tx.abort(8)));
    assert_eq!(Error::from(r.unwrap_err()), Error::Aborted(8));
    if version == 0 {
        rt.named(4).step_own::<_, ()>((), |tx, t, ()| {
            *t.fields(tx).sum.get_mut()? += 10;
            Ok(())
        })?;
        rt.named(5).each_with(0..3, (), |rt, i, ()| {
            rt.record(i)?;
            // The old version stops in the second iteration.
            if i == 1 { Err(Error::Other) } else { Ok(()) }
        })?;
    } else {
        rt.named(6).step_own::<_, ()>(h, |tx, t, h| {
            t.get_mut(tx)?.n = h.into_inner(tx)?.v;
            Ok(())
        })?;
    }
    Ok(())
}

/// The image that the old version leaves.
fn old<M: Model>(setup: &Setup) -> Vec<u8>
where
    M::Unit: Width,
{
    let mut memory = vec![MaybeUninit::new(0u64); BYTES / 8];
    let options = Options {
        table: setup.table,
        pool: Some(pmem_tx::Config::SMALL),
        ..Default::default()
    };
    let mut rt = Rt::<M>::open(Region::new(&mut memory), options, |_| {
        Ok(Top {
            n: 0,
            sum: 0,
            list: None,
        })
    })
    .unwrap();
    assert_eq!(program(&mut rt, 0), Err(Error::Other));
    let _ = rt.close();
    // SAFETY: every word was initialised, and whole units were stored.
    let words = memory.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

fn update<M: Model>(update: Update, bits: u8)
where
    M::Unit: Width,
{
    let setup = Setup {
        version: 1,
        update,
        ..Setup::small(bits)
    };
    let image = old::<M>(&setup);
    let s = explore_with(
        setup,
        Mapped::<M>::with_image(image),
        |nv, world: &W<'_>, setup| {
            life::<M>(
                nv,
                world,
                setup,
                |rt, _| program(rt, 1),
                |rt, world| {
                    // If its record is kept, the loop does not run again.
                    let (n, sum) = state(rt);
                    assert_eq!(n, 40);
                    assert!(sum == 13 || sum == 16, "{sum}");
                    show(world, 0, sum);
                },
            )
        },
    )
    .depth(2)
    .run();
    assert!(s.partial || s.boots > 20, "{s}");
}

const BITS: [u8; 3] = [3, 5, 16];

#[test]
fn records_are_kept() {
    for bits in BITS.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
        update::<InOrder16>(Update::Keep(3), bits);
        update::<InOrder32>(Update::Keep(3), bits);
        update::<Buffered32>(Update::Keep(3), bits);
    }
}

#[test]
fn the_program_starts_over() {
    for bits in BITS.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
        update::<InOrder16>(Update::StartOver, bits);
        update::<InOrder32>(Update::StartOver, bits);
        update::<Buffered32>(Update::StartOver, bits);
    }
}
