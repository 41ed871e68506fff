//! Stores and bytes of the operations of a transaction and of the steps of a program, and erases of
//! a record on flash, as lines `key value`.
//!
//! The library's own stores are counted one by one. What user code writes through a `&mut` is its
//! own and does not count, but the values that the library is given to write, into a cell or a new
//! object, do.

use cost_probes::{Steps, buffer, pool, steps};
use nvmem::instrument::{Observer, observe};
use nvmem::ram::RamNor;
use nvmem::{InOrder16, InOrder32, Medium, Model, Record, Region, WearLevelled};
use pmem_tx::{Error, PBox, Width};
use std::cell::Cell;

/// The stores so far.
#[derive(Default)]
struct Count {
    stores: Cell<usize>,
    bytes: Cell<usize>,
}

impl Observer for Count {
    fn store(&self, _: *mut u8, new: &[u8]) {
        self.stores.set(self.stores.get() + 1);
        self.bytes.set(self.bytes.get() + new.len());
    }
}

impl Count {
    /// Stores and bytes since the last call.
    fn take(&self) -> (usize, usize) {
        (self.stores.take(), self.bytes.take())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    transactions::<InOrder32>("pmem_tx.")?;
    transactions::<InOrder16>("pmem_tx.units_of_16.")?;
    replay::<InOrder32>("nv_replay.")?;
    replay::<InOrder16>("nv_replay.units_of_16.")?;
    record_erases::<true>("write_once")?;
    record_erases::<false>("multiwrite")?;
    level_erases::<true>("write_once")?;
    level_erases::<false>("multiwrite")?;
    Ok(())
}

/// The erases of 1,000 boots that each change a record of 16 bytes once, in three units of 4 KiB.
fn record_erases<const WRITE_ONCE: bool>(key: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut flash = RamNor::<3, 4096, 4, 0xFF, WRITE_ONCE>::new();
    for boot in 0..1000_u32 {
        let mut r = Record::open(&mut flash, 0..3 * 4096, [0_u32; 4])?;
        r.set([boot; 4])?;
    }
    let erases: u32 = flash.wear().iter().sum();
    println!("record.erases_1000_boots_{key} {erases}");
    Ok(())
}

/// The erases of 1,000 boots that each change 16 bytes of wear-levelled flash once: pages of 64
/// bytes in eight units of 4 KiB.
fn level_erases<const WRITE_ONCE: bool>(key: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut flash = RamNor::<8, 4096, 4, 0xFF, WRITE_ONCE>::new();
    let mut table = [0; 512];
    for boot in 0..1000_u32 {
        let mut bytes = WearLevelled::<_, 64>::open(&mut flash, &mut table)?;
        bytes.write(0, &[boot as u8; 16])?;
    }
    let erases: u32 = flash.wear().iter().sum();
    println!("level.erases_1000_boots_{key} {erases}");
    Ok(())
}

fn transactions<M: Model>(prefix: &str) -> Result<(), Error>
where
    M::Unit: Width,
{
    let mut memory = buffer();
    let mut pool = pool::<M>(&mut memory)?;
    let c = Count::default();
    let say = |key: &str, value: usize| println!("{prefix}{key} {value}");
    observe(&c, || {
        pool.tx(|tx, root| {
            say("begin.stores", c.take().0);
            let mut f = root.fields(tx);
            *f.eight.get_mut()? = 1;
            say("first_mut_8.bytes", c.take().1);
            *f.eight.get_mut()? = 2;
            say("second_mut.stores", c.take().0);
            f.sixty_four.get_mut()?[7] = 1;
            say("first_mut_64.bytes", c.take().1);
            Ok(())
        })?;
        say("commit.stores", c.take().0);
        pool.tx(|tx, root| {
            root.fields(tx).cell.write(5)?;
            say("ptr_write_8.bytes", c.take().1 + size_of::<u64>());
            let mut new = PBox::new(tx, [1_u8; 32])?;
            say("alloc_32.bytes", c.take().1 + size_of::<[u8; 32]>());
            new.get_mut(tx)?[0] = 3;
            say("new_object_mut.stores", c.take().0);
            Ok(())
        })?;
        let _ = c.take();
        pool.tx(|tx, root| {
            *root.fields(tx).eight.get_mut()? = 9;
            let _ = c.take();
            Err::<(), _>(tx.abort(0))
        })
        .err();
        say("abort_8.bytes", c.take().1);
        Ok(())
    })
}

/// One program, executed and then bypassed.
fn program<M: Model>(
    rt: &mut Steps<'_, M>,
    say: &dyn Fn(&str, (usize, usize)),
    c: &Count,
) -> Result<u32, nv_replay::Error>
where
    M::Unit: Width,
{
    let _ = c.take();
    rt.step((), |_, _, ()| Ok(()))?;
    say("step_empty", c.take());
    let n = rt.step((), |_, _, ()| Ok(7_u32))?;
    say("step_u32", c.take());
    rt.step(n, |tx, root, n| {
        *root.get_mut(tx)? = n;
        Ok(())
    })?;
    say("step_update_4", c.take());
    let n = rt.record(n)?;
    say("record_u32", c.take());
    rt.each(0..3, |rt, _| {
        rt.step((), |_, _, ()| Ok(()))?;
        Ok(())
    })?;
    say("loop_of_3_empty_steps", c.take());
    Ok(n)
}

fn replay<M: Model>(prefix: &str) -> Result<(), nv_replay::Error>
where
    M::Unit: Width,
{
    let mut memory = buffer();
    let c = Count::default();
    observe(&c, || {
        let mut rt = steps::<M>(Region::new(&mut memory));
        let live = |key: &str, (stores, bytes): (usize, usize)| {
            println!("{prefix}{key}.stores {stores}");
            println!("{prefix}{key}.bytes {bytes}");
        };
        program(&mut rt, &live, &c)?;
        let mut rt = steps::<M>(rt.close());
        let bypassed = Cell::new(0);
        let sum = |_: &str, (stores, _): (usize, usize)| bypassed.set(bypassed.get() + stores);
        program(&mut rt, &sum, &c)?;
        println!("{prefix}bypassed_program.stores {}", bypassed.get());
        Ok(())
    })
}
