//! Stores and bytes of the operations of a transaction, as lines `key value`.
//!
//! The library's own stores are counted one by one. What user code writes through a `&mut` is its own and does not
//! count, but the values that the library is given to write, into a cell or a new object, do.

use cost_probes::{buffer, pool};
use nvmem::instrument::{Observer, observe};
use nvmem::{InOrder16, InOrder32, Model};
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

fn main() -> Result<(), Error> {
    transactions::<InOrder32>("pmem_tx.")?;
    transactions::<InOrder16>("pmem_tx.units_of_16.")?;
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
            let mut new = PBox::new([1_u8; 32], tx)?;
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
