//! Any bytes as a replay table and its pool: `open` gives an error value, or a program that ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nv_replay::nvmem::{InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{Error, Message, NotNow, Options, Outlet, Port, Replay};
use relume_fuzz::{attack, blank, bytes, bytes_mut, seeds_of_both};
use std::sync::LazyLock;

const BYTES: usize = 2048;

static PORT: Port<u32> = Port::new(1);

/// Receives the program's messages and decodes each.
#[derive(Default)]
struct Sent(u32);

impl Outlet for Sent {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        if let Some(Ok(v)) = m.get(&PORT) {
            self.0 = self.0.wrapping_add(v);
        }
        Ok(())
    }
}

fn open<'m, M: Model>(
    region: Region<'m, M>,
    out: &'m mut Sent,
    start_over: bool,
) -> Option<Replay<'m, [u32; 4], M>>
where
    M::Unit: Width,
{
    let options = Options {
        outlet: Some(out),
        start_over,
        ..Options::default()
    };
    Replay::open(region, options, |_| Ok([0; 4])).ok()
}

/// Steps of each kind. With a hostile table the program may diverge: an error, and the same error
/// from then on.
fn program<M: Model>(rt: &mut Replay<'_, [u32; 4], M>, until: u32) -> Result<bool, Error>
where
    M::Unit: Width,
{
    let on = rt.step((), |tx, root, ()| {
        root.get_mut(tx)?[0] = 1;
        Ok(true)
    })?;
    let x = rt.record_with(|| 5_u32)?;
    rt.each(0..until, |rt, i| {
        rt.step(i, |tx, root, i| {
            root.get_mut(tx)?[1] = i;
            tx.send(&PORT, i)
        })?;
        Ok(())
    })?;
    rt.step(x, |tx, root, x| {
        root.get_mut(tx)?[2] = x;
        Ok(())
    })?;
    Ok(on)
}

fn sound<M: Model>() -> Vec<u8>
where
    M::Unit: Width,
{
    let (mut words, mut out) = (blank(BYTES), Sent::default());
    let mut rt =
        open::<M>(Region::new(&mut words), &mut out, false).expect("a blank region is formatted");
    program(&mut rt, 4).expect("a sound program");
    drop(rt);
    bytes(&words).to_vec()
}

static NARROW: LazyLock<Vec<u8>> = LazyLock::new(sound::<InOrder16>);
static WIDE: LazyLock<Vec<u8>> = LazyLock::new(sound::<InOrder32>);

fn run<M: Model>(image: &[u8], change: impl FnOnce(&mut [u8]))
where
    M::Unit: Width,
{
    let mut words = blank(BYTES);
    let to = bytes_mut(&mut words);
    to.copy_from_slice(image);
    change(to);
    let (mut a, mut b, mut c) = (Sent::default(), Sent::default(), Sent::default());
    let Some(mut rt) = open::<M>(Region::new(&mut words), &mut a, false) else {
        return;
    };
    let first = program(&mut rt, 4);
    let again = open::<M>(rt.close(), &mut b, false);
    let mut rt = again.expect("what was opened opens again");
    if first.is_ok() {
        assert_eq!(program(&mut rt, 4), first, "a replay takes the same way");
    }
    let over = open::<M>(rt.close(), &mut c, true);
    let mut rt = over.expect("any table can start over");
    assert_eq!(program(&mut rt, 2), Ok(true), "a fresh program");
}

fuzz_target!(
    init: seeds_of_both(&NARROW, &WIDE),
    |data: &[u8]| attack(data, |wide, change| match wide {
        false => run::<InOrder16>(&NARROW, change),
        true => run::<InOrder32>(&WIDE, change),
    })
);
