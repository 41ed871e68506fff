//! The documented cost of operations, counted store by store.

use core::cell::Cell;
use core::mem::MaybeUninit;
use nvmem::instrument::{Observer, observe};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use pmem_tx::{Config, Error, PBox, Pool, Ptr, Root, Tx, Width};

#[derive(Persist)]
#[repr(C)]
struct Top<'p, W: Width> {
    eight: u64,
    sixty_four: [u64; 8],
    cell: Option<Ptr<'p, u64, W>>,
    big: Option<PBox<'p, [u8; 600], W>>,
}

/// Counts the stores and bytes of the library; writes of user code through loans are not counted.
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

type Body<M> = for<'p> fn(
    &Tx<'p, M>,
    &mut Root<'p, Top<'p, <M as Model>::Unit>, <M as Model>::Unit>,
) -> Result<(), Error>;

/// Bytes and stores of a transaction with this body, its commit included.
fn cost<M: Model>(body: Body<M>) -> (usize, usize)
where
    M::Unit: Width,
{
    let mut b = vec![MaybeUninit::new(0); 1024];
    let mut pool =
        Pool::<Top<'static, M::Unit>, M>::open_with(Region::new(&mut b), &Config::DEFAULT, |tx| {
            Ok(Top {
                eight: 0,
                sixty_four: [0; 8],
                cell: Some(Ptr::new(tx, 1)?),
                big: Some(PBox::new(tx, [0; 600])?),
            })
        })
        .unwrap();
    let count = Count::default();
    observe(&count, || {
        let _ = pool.tx(body);
    });
    (count.bytes.get(), count.stores.get())
}

fn all<M: Model>()
where
    M::Unit: Width,
{
    let unit = size_of::<M::Unit>();
    let header = 2 * unit;
    let bytes = |body: Body<M>| cost::<M>(body).0;
    assert_eq!(bytes(|_, _| Ok(())), 0, "begin, and a commit of nothing");
    assert_eq!(
        bytes(|tx, r| {
            r.get(tx);
            Ok(())
        }),
        0,
        "reading"
    );
    let first_8 = bytes(|tx, r| {
        *r.fields(tx).eight.get_mut()? = 1;
        Ok(())
    });
    assert_eq!(
        first_8,
        8 + header + unit,
        "first access to 8 bytes, and the commit"
    );
    let first_64 = bytes(|tx, r| {
        r.fields(tx).sixty_four.get_mut()?[7] = 1;
        Ok(())
    });
    assert_eq!(first_64, 64 + header + unit);
    let element = bytes(|tx, r| {
        *r.fields(tx).sixty_four.at_mut(3)? = 1;
        Ok(())
    });
    assert_eq!(element, 8 + header + unit, "one element");
    let second = bytes(|tx, r| {
        *r.fields(tx).eight.get_mut()? = 1;
        *r.fields(tx).eight.get_mut()? = 2;
        Ok(())
    });
    assert_eq!(second, first_8, "the second access costs nothing");
    let two = bytes(|tx, r| {
        *r.fields(tx).eight.get_mut()? = 1;
        r.fields(tx).sixty_four.get_mut()?[0] = 2;
        Ok(())
    });
    assert_eq!(
        two,
        first_8 + first_64 - unit,
        "one commit store, whatever the size"
    );
    let ptr = bytes(|tx, r| r.fields(tx).cell.write(5));
    // The program writes the value itself: 8 bytes that the observer does not count.
    assert_eq!(ptr, unit + unit, "tag, commit");
    let alloc = bytes(|tx, _| PBox::new(tx, [1u8; 32]).map(drop));
    assert_eq!(
        alloc,
        header + 2 * unit + unit,
        "a journal header, two block headers, the commit"
    );
    let alloc_and_write = bytes(|tx, _| {
        let mut b = PBox::new(tx, [1u8; 32])?;
        b.get_mut(tx)?[0] = 3;
        b.at_mut(tx, 5).map(|b| *b = 1)
    });
    assert_eq!(alloc_and_write, alloc, "a new object is not logged");
    let (abort, _) = cost::<M>(|tx, r| {
        *r.fields(tx).eight.get_mut()? = 1;
        Err(tx.abort(0))
    });
    assert_eq!(
        abort,
        8 + header + 8 + unit,
        "logged, restored, and one header cleared"
    );
    let big = bytes(|tx, r| {
        let mut f = r.fields(tx);
        let mut big = f.big.follow().ok_or(tx.abort(0))?;
        big.get_mut()?[0] = 1;
        Ok(())
    });
    let entries = if unit == 2 { 2 } else { 1 };
    assert_eq!(
        big,
        600 + entries * header + unit,
        "long ranges want an entry for each 510 bytes"
    );
}

#[test]
fn costs_are_as_documented() {
    all::<InOrder16>();
    // The same paths.
    if !cfg!(miri) {
        all::<InOrder32>();
        all::<Buffered32>();
    }
}

/// Ten blocks that were freed one by one are one block after the next open: the one behind it has
/// nothing to join.
#[test]
fn an_open_joins_free_blocks() {
    type Ten<'p> = [Option<PBox<'p, [u32; 4]>>; 10];
    let mut memory = vec![MaybeUninit::new(0); 256];
    let stores = |memory: &mut [MaybeUninit<u64>], change: fn(&mut Pool<'_, Ten<'static>>)| {
        let count = Count::default();
        let mut pool = observe(&count, || {
            Pool::<Ten<'static>>::open(Region::<InOrder32>::new(memory), |_| {
                Ok([const { None }; 10])
            })
        });
        change(pool.as_mut().unwrap());
        count.stores.get()
    };
    stores(&mut memory, |pool| {
        for i in 0..10u32 {
            pool.tx_with(i, |tx, ten, i| {
                ten.get_mut(tx)?[i as usize] = Some(PBox::new(tx, [7; 4])?);
                Ok(())
            })
            .unwrap();
        }
        for i in 0..10u32 {
            pool.tx_with(i, |tx, ten, i| {
                let block = ten.get_mut(tx)?[i as usize].take();
                block.map_or(Ok(()), |block| block.free(tx))
            })
            .unwrap();
        }
    });
    let first = stores(&mut memory, |_| ());
    let second = stores(&mut memory, |pool| {
        let all = pool.audit().unwrap();
        assert_eq!(all.blocks, 1);
        assert_eq!(all.free, all.largest_free + 4);
    });
    assert_eq!(first, second + 1);
}
