//! What makes a recorded call the same call: its kind, types, name and arguments, and nothing else.

use nv_replay::nvmem::{InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{Error, Mismatch, OpenError, Options, Replay};
use std::mem::MaybeUninit;

type Rt<'m, M> = Replay<'m, u32, M>;
type Program<M> = fn(&mut Rt<'_, M>) -> Result<(), Error>;

fn open<M: Model>(memory: &mut [MaybeUninit<u64>]) -> Rt<'_, M>
where
    M::Unit: Width,
{
    Rt::<M>::open(Region::new(memory), Options::default(), |_| Ok(0)).expect("opens")
}

/// Runs one program, then the other one with its records.
fn one_after_the_other<M: Model>(
    first: Program<M>,
    then: Program<M>,
) -> (Result<(), Error>, Option<Mismatch>)
where
    M::Unit: Width,
{
    let mut memory = vec![MaybeUninit::new(0); 512];
    first(&mut open(&mut memory)).expect("runs");
    let mut rt = open(&mut memory);
    let result = then(&mut rt);
    assert_eq!(result.is_ok(), rt.is_live());
    (result, rt.divergence().map(|d| d.mismatch))
}

macro_rules! differ {
    ($($name:ident: $first:expr, $then:expr, $mismatch:expr;)*) => {$(
        #[test]
        fn $name() {
            let diverged = (Err(Error::Diverged), Some($mismatch));
            assert_eq!(one_after_the_other::<InOrder32>($first, $then), diverged);
            assert_eq!(one_after_the_other::<InOrder16>($first, $then), diverged);
        }
    )*};
}

differ! {
    another_kind_is_found:
        |rt| rt.record(1u32).map(|_| ()),
        |rt| { rt.step((), |_, _, ()| Ok(1u32))?; Ok(()) },
        Mismatch::Call;
    a_loop_without_end_is_no_loop_with_one:
        |rt| rt.each_with(0..0xffff, 5u32, |_, _, _| Err(Error::Other)).or(Ok(())),
        |rt| rt.forever_with(5u32, |_, _, _| Err(Error::Other)).map(|_| ()).or_else(|e| match e {
            Error::Other => Ok(()),
            e => Err(e),
        }),
        Mismatch::Call;
    another_type_of_the_result_is_found:
        |rt| { rt.step((), |_, _, ()| Ok(1u32))?; Ok(()) },
        |rt| { rt.step((), |_, _, ()| Ok(1i32))?; Ok(()) },
        Mismatch::Call;
    another_type_of_the_arguments_is_found:
        |rt| { rt.step(1u32, |_, _, _| Ok(()))?; Ok(()) },
        |rt| { rt.step(1i32, |_, _, _| Ok(()))?; Ok(()) },
        Mismatch::Call;
    another_type_in_a_loop_is_found:
        |rt| rt.each_with(0..2, 1u32, |_, _, _| Ok(())),
        |rt| rt.each_with(0..2, 1i32, |_, _, _| Ok(())),
        Mismatch::Call;
    another_name_is_found:
        |rt| { rt.named("open").step((), |_, _, ()| Ok(()))?; Ok(()) },
        |rt| { rt.named("close").step((), |_, _, ()| Ok(()))?; Ok(()) },
        Mismatch::Call;
    another_name_of_a_loop_is_found:
        |rt| rt.named("morning").each(0..2, |_, _| Ok(())),
        |rt| rt.named("evening").each(0..2, |_, _| Ok(())),
        Mismatch::Call;
    another_name_of_an_input_is_found:
        |rt| rt.named("x").record(0u8).map(|_| ()),
        |rt| rt.named("y").record(0u8).map(|_| ()),
        Mismatch::Call;
    swapped_names_are_found:
        |rt| {
            rt.named("open").step((), |_, _, ()| Ok(()))?;
            rt.named("close").step((), |_, _, ()| Ok(()))?;
            Ok(())
        },
        |rt| {
            rt.named("close").step((), |_, _, ()| Ok(()))?;
            rt.named("open").step((), |_, _, ()| Ok(()))?;
            Ok(())
        },
        Mismatch::Call;
    twins_are_told_apart_by_their_arguments:
        |rt| { rt.step(1u32, |_, _, _| Ok(0u8))?; Ok(()) },
        |rt| { rt.step(2u32, |_, _, _| Ok(0u8))?; Ok(()) },
        Mismatch::Arguments;
}

/// The same calls on other lines, in another format, in closures and functions.
fn program<M: Model>(rt: &mut Rt<'_, M>) -> Result<(), Error>
where
    M::Unit: Width,
{
    let x = rt.record(3u16)?;
    rt.named("count").each_with(0..2, x, |rt, i, x| {
        rt.step((i, x), |tx, n, (i, x)| {
            *n.get_mut(tx)? += i + u32::from(x);
            Ok(())
        })?;
        Ok(())
    })?;
    let n = rt.step((), |tx, n, ()| Ok(*n.get(tx)))?;
    if n == 7 { Ok(()) } else { Err(Error::Other) }
}
fn moved<M: Model>(rt: &mut Rt<'_, M>) -> Result<(), Error>
where
    M::Unit: Width,
{
    /// A loop's body that has become a function.
    fn add<M: Model>(rt: &mut Rt<'_, M>, i: u32, x: u16) -> Result<(), Error>
    where
        M::Unit: Width,
    {
        Ok(rt.step((i, x), |tx, n, (i, x)| {
            *n.get_mut(tx)? += i + u32::from(x);
            Ok(())
        })?)
    }

    // A comment that a colleague has added.
    let read = || 3u16;
    let x = rt.record_with(read)?;

    let count = rt.named("count");
    count.each_with(0..2, x, |rt, i, x| add(rt, i, x))?;
    match rt.step((), |tx, n, ()| Ok(*n.get(tx)))? {
        7 => Ok(()),
        _ => Err(Error::Other),
    }
}

#[test]
fn where_a_call_is_does_not_count() {
    fn both_ways<M: Model>()
    where
        M::Unit: Width,
    {
        let done = (Ok(()), None);
        assert_eq!(one_after_the_other::<M>(program, moved), done);
        assert_eq!(one_after_the_other::<M>(moved, program), done);
    }
    both_ways::<InOrder32>();
    both_ways::<InOrder16>();
}

/// What the documentation says of twins: nobody notices, so the runtime reports them.
#[test]
fn twins_are_reported() {
    let mut memory = vec![MaybeUninit::new(0); 512];
    let mut rt = open::<InOrder32>(&mut memory);
    let line = line!() + 2;
    for _ in 0..2 {
        rt.step((), |_, _, ()| Ok(())).expect("a step");
        rt.named("b").step((), |_, _, ()| Ok(())).expect("a name");
        rt.record(1u8).expect("another kind");
    }
    assert!(rt.twins().is_empty(), "{:?}", rt.twins());
    rt.step((), |_, _, ()| Ok(())).expect("a twin");
    rt.each(0..1, |_, _| Ok(())).expect("no twin");
    let [twin] = rt.twins() else {
        panic!("{:?}", rt.twins())
    };
    assert_eq!((twin.first.line(), twin.second.line()), (line, line + 5));
}

/// The superblock of a table that the previous release has formatted.
#[test]
fn an_older_format_is_refused_by_its_version() {
    let mut memory = vec![MaybeUninit::new(0u64); 112];
    #[rustfmt::skip]
    let words: [(usize, u32, u32); 11] = [
        (0x000, 0x314d4c52, 0x00010000), (0x008, 0x594c5052, 0x00000000),
        (0x038, 0x00000000, 0xce351b20), (0x040, 0x314d4c52, 0x00020001),
        (0x048, 0x594c5052, 0x00000004), (0x050, 0x3d8df765, 0x263bd570),
        (0x058, 0x00180060, 0x00000008), (0x060, 0x00000040, 0x00000008),
        (0x068, 0x00000004, 0x00000380), (0x078, 0x00000000, 0xa762ad68),
        (0x080, 0x00000001, 0x00000001),
    ];
    for (at, low, high) in words {
        memory[at / 8] = MaybeUninit::new(u64::from(high) << 32 | u64::from(low));
    }
    let region = Region::<InOrder32>::new(&mut memory);
    let refused = Replay::<u32>::open(region, Options::default(), |_| Ok(0));
    let error = refused.err().expect("an older format").error;
    assert_eq!(error, OpenError::FormatVersion { stored: 4 });
    assert_eq!(
        error.to_string(),
        "the region holds a replay table of format version 4, and this crate reads 5 and 7"
    );
}
