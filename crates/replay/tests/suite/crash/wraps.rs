//! Sequence numbers that wrap, and iteration counters that carry.

use super::programs::*;
use nv_replay::Error;
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use powerfail::{Mapped, explore_with};
use std::mem::MaybeUninit;

const BYTES: usize = 2048;

/// Iterations of different lengths, so that a long iteration leaves stale records behind those of a
/// later one. Some have an inner loop.
fn uneven<M: Model, const TO: u32>(rt: &mut Rt<'_, M>, _: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    rt.each(0..TO, |rt, i| {
        for k in 0..(i * 5) % 4 {
            rt.step((i, k), |tx, t, (i, k)| {
                *t.fields(tx).sum.get_mut()? += i * 4 + k;
                Ok(())
            })?;
        }
        if i % 3 == 1 {
            rt.each_with(0..2, i, |rt, _, i| {
                rt.step(i, |tx, t, i| {
                    *t.fields(tx).n.get_mut()? += i;
                    Ok(i)
                })?;
                Ok(())
            })?;
        }
        Ok(())
    })
}
fn expected<const TO: u32>() -> (u32, u32) {
    let (mut n, mut sum) = (0, 0);
    for i in 0..TO {
        sum += (0..(i * 5) % 4).map(|k| i * 4 + k).sum::<u32>();
        n += if i % 3 == 1 { 2 * i } else { 0 };
    }
    (n, sum)
}

/// Iterations that leave stale headers behind the record of a loop of one step.
fn uneven_steps<M: Model, const TO: u32>(rt: &mut Rt<'_, M>, _: &W<'_>) -> Result<(), Error>
where
    M::Unit: Width,
{
    rt.each(0..TO, |rt, i| {
        for k in 0..(i * 5) % 4 {
            rt.step((i, k), |tx, t, (i, k)| {
                *t.fields(tx).sum.get_mut()? += i * 4 + k;
                Ok(())
            })?;
        }
        if i % 2 == 0 {
            rt.each_step(0..1 + i % 3, i, |tx, t, _, i| {
                *t.fields(tx).n.get_mut()? += i;
                Ok(())
            })?;
        }
        Ok(())
    })
}
fn expected_steps<const TO: u32>() -> (u32, u32) {
    let n = (0..TO).step_by(2).map(|i| i * (1 + i % 3)).sum();
    (n, expected::<TO>().1)
}

/// The image when iteration `stop` begins.
fn aged<M: Model>(bits: u8, stop: u32, run: fn(&mut Rt<'_, M>, u32)) -> Vec<u8>
where
    M::Unit: Width,
{
    let mut memory = vec![MaybeUninit::new(0u64); BYTES / 8];
    let mut options = nv_replay::Options {
        table: Setup::small(bits).table,
        ..Default::default()
    };
    options.pool = Some(nv_replay::pmem_tx::Config::SMALL);
    let mut rt = Rt::<M>::open(Region::<M>::new(&mut memory), options, |_| {
        Ok(Top {
            n: 0,
            sum: 0,
            list: None,
        })
    })
    .unwrap();
    run(&mut rt, stop);
    let _ = rt.close();
    // SAFETY: every word was initialised, and whole units were stored.
    memory
        .iter()
        .flat_map(|w| unsafe { w.assume_init() }.to_ne_bytes())
        .collect()
}

fn wrap<M: Model, const TO: u32>(bits: u8)
where
    M::Unit: Width,
{
    wraps::<M>(bits, uneven::<M, TO>, |rt, _| {
        assert_eq!(state(rt), expected::<TO>())
    })
}

fn wrap_steps<M: Model, const TO: u32>(bits: u8)
where
    M::Unit: Width,
{
    wraps::<M>(bits, uneven_steps::<M, TO>, |rt, _| {
        assert_eq!(state(rt), expected_steps::<TO>())
    })
}

fn wraps<M: Model>(
    bits: u8,
    program: fn(&mut Rt<'_, M>, &W<'_>) -> Result<(), Error>,
    check: fn(&mut Rt<'_, M>, &W<'_>),
) where
    M::Unit: Width,
{
    let s = explore_with(
        (Setup::small(bits), program, check),
        Mapped::<M>::new(BYTES),
        |nv, world: &W<'_>, (setup, program, check)| life::<M>(nv, world, setup, *program, *check),
    )
    .depth(2)
    .run();
    println!("{} {bits} bits: {s}", M::NAME);
    assert!(s.partial || s.boots > 50);
}

/// The widths of sequence numbers. Under Miri so few bits that they wrap in a short loop.
const BITS: std::ops::RangeInclusive<u8> = if cfg!(miri) { 3..=3 } else { 3..=6 };
const LONG: u32 = if cfg!(miri) { 10 } else { 40 };
const LESS: u32 = if cfg!(miri) { 10 } else { 20 };

#[test]
fn narrow_numbers_in_order_16() {
    for bits in BITS {
        wrap::<InOrder16, LONG>(bits)
    }
}
#[test]
fn narrow_numbers_in_order_32() {
    for bits in BITS {
        wrap::<InOrder32, LONG>(bits)
    }
}
#[test]
fn narrow_numbers_buffered_32() {
    for bits in BITS {
        wrap::<Buffered32, LESS>(bits)
    }
}

#[test]
fn narrow_numbers_of_turns_in_order_16() {
    for bits in BITS {
        wrap_steps::<InOrder16, LONG>(bits)
    }
}
#[test]
fn narrow_numbers_of_turns_in_order_32() {
    for bits in BITS {
        wrap_steps::<InOrder32, LONG>(bits)
    }
}
#[test]
fn narrow_numbers_of_turns_buffered_32() {
    for bits in BITS {
        wrap_steps::<Buffered32, LESS>(bits)
    }
}

std::thread_local!(static STOP: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });

/// A loop of one step that counts, as the loop below.
fn counting_steps<M: Model>(rt: &mut Rt<'_, M>, stop: u32, to: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    STOP.set(stop);
    rt.each_step(0..to, (), |tx, t, i, ()| {
        if i == STOP.get() {
            return Err(tx.abort(1));
        }
        *t.fields(tx).sum.get_mut()? += i;
        Ok(())
    })
}

/// As `carry`, for a loop of one step.
fn carry_steps<M: Model, const CARRY: u32>()
where
    M::Unit: Width,
{
    let image = aged::<M>(16, CARRY - 2, |rt, stop| {
        counting_steps(rt, stop, CARRY + 4).unwrap_err();
    });
    let s = explore_with(
        Setup::small(16),
        Mapped::<M>::with_image(image),
        |nv, world: &W<'_>, setup| {
            life::<M>(
                nv,
                world,
                setup,
                |rt, _| counting_steps(rt, u32::MAX, CARRY + 4),
                |rt, _| assert_eq!(state(rt), (0, (CARRY + 3) * (CARRY / 2 + 2))),
            )
        },
    )
    .depth(2)
    .run();
    assert!(s.partial || s.boots > 15, "{s}");
}

/// Runs from two iterations before the lower counter carries to some after it.
fn carry<M: Model, const CARRY: u32>()
where
    M::Unit: Width,
{
    fn until<M: Model>(rt: &mut Rt<'_, M>, stop: u32)
    where
        M::Unit: Width,
    {
        counting(rt, stop, stop + 6).unwrap_err();
    }
    fn counting<M: Model>(rt: &mut Rt<'_, M>, stop: u32, to: u32) -> Result<(), Error>
    where
        M::Unit: Width,
    {
        STOP.set(stop);
        rt.each(0..to, |rt, i| {
            if i == STOP.get() {
                return Err(Error::Other);
            }
            rt.step(i, |tx, t, i| {
                *t.fields(tx).sum.get_mut()? += i;
                Ok(())
            })?;
            Ok(())
        })
    }
    let image = aged::<M>(16, CARRY - 2, until);
    let s = explore_with(
        Setup::small(16),
        Mapped::<M>::with_image(image),
        |nv, world: &W<'_>, setup| {
            life::<M>(
                nv,
                world,
                setup,
                |rt, _| counting(rt, u32::MAX, CARRY + 4),
                |rt, _| assert_eq!(state(rt), (0, (CARRY + 3) * (CARRY / 2 + 2))),
            )
        },
    )
    .depth(2)
    .run();
    assert!(s.partial || s.boots > 20, "{s}");
}

/// The start word holds 7 bits of the counter.
#[test]
#[cfg_attr(miri, ignore = "250 iterations in each boot")]
fn counters_carry_in_16_bits() {
    carry::<InOrder16, 256>();
    carry_steps::<InOrder16, 256>();
}

/// The start word holds 15 bits of the counter; also on a medium that persists stores in any order.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of iterations")]
fn counters_carry_in_32_bits() {
    carry::<InOrder32, 0x8000>();
    carry::<Buffered32, 0x8000>();
    carry_steps::<InOrder32, 0x8000>();
    carry_steps::<Buffered32, 0x8000>();
}
