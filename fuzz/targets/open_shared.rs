//! Any bytes as a pool with shared roots: `open` gives an error value, or a working pool whose
//! objects have one owner.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvmem::{InOrder16, InOrder32, Model, Persist, Region};
use pmem_tx::{Config, Contexts, PBox, Pool, Sharing, Tx, Width};
use relume_fuzz::{attack, blank, bytes, bytes_mut, seeds_of_both};
use std::sync::LazyLock;

const BYTES: usize = 768;
const CONFIG: Config = Config {
    journal_entries: 6,
    journal_bytes: 40,
    seq_bits: 5,
};

#[derive(Persist)]
#[repr(C)]
struct Item {
    n: u32,
    on: bool,
}

/// The root of a context, or a shared one.
#[derive(Persist)]
#[repr(C)]
struct Holder<'p, W: Width> {
    n: u32,
    item: Option<PBox<'p, Item, W>>,
}
impl<'p, W: Width> Holder<'p, W> {
    fn empty() -> Self {
        Holder { n: 0, item: None }
    }

    /// What it holds, as numbers. A `bool` with other bits would be undefined behaviour here.
    fn value<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>) -> [u32; 3] {
        let (n, on) = match &self.item {
            Some(item) => (item.get(tx).n, if item.get(tx).on { 2 } else { 1 }),
            None => (0, 0),
        };
        [self.n, n, on]
    }
}

type Own<W> = Holder<'static, W>;
type Roots<W> = Sharing<(Own<W>, u32), Contexts<(Own<W>, Own<W>)>>;
type On<'m, M> = Pool<'m, Roots<<M as Model>::Unit>, M>;

fn open<M: Model>(region: Region<'_, M>) -> Option<On<'_, M>>
where
    M::Unit: Width,
{
    On::<M>::open_with(region, &CONFIG, |_| {
        Ok(((Holder::empty(), 7), (Holder::empty(), Holder::empty())))
    })
    .ok()
}

/// The values of all roots: the two contexts' and the shared ones.
fn read<M: Model>(pool: &mut On<'_, M>) -> [[u32; 3]; 4]
where
    M::Unit: Width,
{
    let no_open = "no transaction was forgotten";
    let ((mut a, mut b), (mut board, mut count)) = pool.share().expect(no_open);
    let first = a.tx_with(&mut board, |tx, mine, board| {
        Ok([mine.get(tx).value(tx), board.get(tx).value(tx)])
    });
    let second = b.tx_with(&mut count, |tx, mine, count| {
        Ok([mine.get(tx).value(tx), [*count.get(tx), 0, 0]])
    });
    let is_valid = "reading fails only when a value is invalid";
    let [own, board] = first.map_err(|f| f.error).expect(is_valid);
    let [other, count] = second.map_err(|f| f.error).expect(is_valid);
    [own, board, other, count]
}

/// An object is made, handed over through the shared root, and freed; one transaction is aborted.
/// None may panic; the pool may be full.
fn work<M: Model>(pool: &mut On<'_, M>)
where
    M::Unit: Width,
{
    let no_open = "no transaction was forgotten";
    let ((mut a, mut b), (mut board, mut count)) = pool.share().expect(no_open);
    let _ = a.tx_with(&mut board, |tx, mine, mut board| {
        let item = match mine.get_mut(tx)?.item.take() {
            Some(item) => item,
            None => PBox::new(tx, Item { n: 5, on: true })?,
        };
        if let Some(old) = board.get_mut(tx)?.item.replace(item) {
            old.free(tx)?;
        }
        Ok(())
    });
    let _ = b.tx_with(&mut board, |tx, mine, mut board| {
        mine.get_mut(tx)?.item = board.get_mut(tx)?.item.take();
        Err::<(), _>(tx.abort(1))
    });
    let _ = b.tx_with(&mut board, |tx, mine, mut board| {
        let got = board.get_mut(tx)?.item.take();
        let mine = mine.get_mut(tx)?;
        mine.n = mine.n.wrapping_add(1);
        if let Some(old) = core::mem::replace(&mut mine.item, got) {
            old.free(tx)?;
        }
        Ok(())
    });
    let _ = a.tx_with(&mut count, |tx, _, mut count| {
        let count = count.get_mut(tx)?;
        *count = count.wrapping_add(1);
        Ok(())
    });
}

fn sound<M: Model>() -> Vec<u8>
where
    M::Unit: Width,
{
    let mut words = blank(BYTES);
    let mut pool = open::<M>(Region::new(&mut words)).expect("a blank region is formatted");
    work(&mut pool);
    let ((mut a, _b), (mut board, _)) = pool.share().expect("nothing is open");
    // An object in each root.
    a.tx_with(&mut board, |tx, mine, mut board| {
        mine.get_mut(tx)?.item = Some(PBox::new(tx, Item { n: 6, on: false })?);
        board.get_mut(tx)?.item = Some(PBox::new(tx, Item { n: 7, on: true })?);
        Ok(())
    })
    .map_err(|f| f.error)
    .expect("there is room");
    drop(pool);
    bytes(&words).to_vec()
}
static NARROW: LazyLock<Vec<u8>> = LazyLock::new(sound::<InOrder16>);
static WIDE: LazyLock<Vec<u8>> = LazyLock::new(sound::<InOrder32>);

fn run<M: Model>(sound: &[u8], change: impl FnOnce(&mut [u8]))
where
    M::Unit: Width,
{
    let mut words = blank(BYTES);
    let image = bytes_mut(&mut words);
    image.copy_from_slice(sound);
    change(image);
    let Some(mut pool) = open::<M>(Region::new(&mut words)) else {
        return;
    };
    pool.audit().expect("an opened pool is sound");
    let before = read(&mut pool);
    let mut pool = open(pool.close()).expect("what was opened opens again");
    assert_eq!(read(&mut pool), before, "opening changed the content");
    work(&mut pool);
    let after = read(&mut pool);
    pool.audit().expect("sound after work");
    let mut pool = open(pool.close()).expect("opens after work");
    assert_eq!(read(&mut pool), after, "a commit was lost");
}

fuzz_target!(
    init: seeds_of_both(&NARROW, &WIDE),
    |data: &[u8]| attack(data, |wide, change| match wide {
        false => run::<InOrder16>(&NARROW, change),
        true => run::<InOrder32>(&WIDE, change),
    })
);
