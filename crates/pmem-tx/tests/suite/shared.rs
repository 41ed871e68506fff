//! Shared roots: what a key allows, what is refused, hostile bytes, and the format.

use core::cell::RefCell;
use core::mem::MaybeUninit;
use nvmem::{InOrder16, InOrder32, LayoutMismatch, Model, Persist, Region};
use pmem_tx::{
    Audit, Config, Contexts, Error, Failed, OpenError, OpenFailure, PBox, Pool, Shared, Sharing,
    Width,
};

const CONFIG: Config = Config {
    journal_entries: 6,
    journal_bytes: 40,
    seq_bits: 5,
};

#[derive(Persist, Debug, PartialEq)]
#[repr(C)]
struct Item {
    n: u32,
    on: bool,
}

/// A root of a context, or a shared one.
#[derive(Persist)]
#[repr(C)]
struct Holder<'p, W: Width> {
    n: u32,
    item: Option<PBox<'p, Item, W>>,
}
impl<W: Width> Holder<'_, W> {
    fn empty<'p>() -> Holder<'p, W> {
        Holder { n: 0, item: None }
    }
}

type Own<W> = Holder<'static, W>;
type Roots<W> = Sharing<(Own<W>, u32), Contexts<(Own<W>, Own<W>)>>;
type On<'m, M> = Pool<'m, Roots<<M as Model>::Unit>, M>;

fn memory() -> [MaybeUninit<u64>; 80] {
    [MaybeUninit::new(0); 80]
}

fn open<M: Model>(region: Region<'_, M>) -> Result<On<'_, M>, OpenFailure<'_, M>>
where
    M::Unit: Width,
{
    On::<M>::open_with(region, &CONFIG, |_| {
        Ok(((Holder::empty(), 7), (Holder::empty(), Holder::empty())))
    })
}

fn error<A>(f: Failed<A>) -> Error {
    f.error
}

/// An object goes from a context to the shared root and on to the other context.
fn hand_over<M: Model>()
where
    M::Unit: Width,
{
    let mut words = memory();
    let mut pool = open::<M>(Region::new(&mut words)).unwrap();
    let ((mut a, mut b), (board, count)) = pool.share().unwrap();
    let (board, mut count) = (RefCell::new(board), count);
    a.tx_with(&mut *board.borrow_mut(), |tx, mine, mut board| {
        mine.get_mut(tx)?.n = 1;
        board.get_mut(tx)?.item = Some(PBox::new(tx, Item { n: 5, on: true })?);
        Ok(())
    })
    .map_err(error)
    .unwrap();
    // An abort takes nothing.
    let mut lock = board.borrow_mut();
    let r = b.tx_with(&mut *lock, |tx, mine, mut board| {
        mine.get_mut(tx)?.item = board.get_mut(tx)?.item.take();
        Err::<(), _>(tx.abort(1))
    });
    assert_eq!(r.map_err(error), Err(Error::Aborted(1)));
    let r = b.tx_with(
        (&mut *lock, &mut count, 3u32),
        |tx, mine, (mut board, mut count, more)| {
            *count.get_mut(tx)? += more;
            // A nested transaction of the shared root.
            let r = tx.nested(&mut board, |tx, board| {
                board.get_mut(tx)?.n = 9;
                Err::<(), _>(tx.abort(2))
            });
            assert_eq!(r, Err(Error::Aborted(2)));
            let item = board.fields(tx).item.get_mut()?.take();
            let mine = mine.get_mut(tx)?;
            mine.item = item;
            Ok((board.get(tx).n, mine.item.as_ref().map(|i| i.get(tx).n)))
        },
    );
    assert_eq!(r.map_err(error), Ok((0, Some(5))));
    drop(lock);
    let used = pool.audit().unwrap();
    assert_eq!((used.blocks, used.unreachable), (5, 0));

    // The next session finds all of it.
    let mut pool = open(pool.close()).unwrap();
    let ((mut a, mut b), (_, mut count)) = pool.share().unwrap();
    let n = a.tx_with(&mut count, |tx, mine, count| {
        Ok((mine.get(tx).n, *count.get(tx)))
    });
    assert_eq!(n.map_err(error), Ok((1, 10)));
    let n = b.tx(|tx, mine| Ok(mine.get(tx).item.as_ref().map(|i| i.get(tx).n)));
    assert_eq!(n, Ok(Some(5)));
}

#[test]
fn an_object_changes_hands() {
    hand_over::<InOrder32>();
    hand_over::<InOrder16>();
}

#[test]
fn what_a_shared_root_owns_is_not_reclaimed() {
    let mut words = memory();
    let mut pool = open::<InOrder32>(Region::new(&mut words)).unwrap();
    let ((mut a, _), (mut board, _)) = pool.share().unwrap();
    a.tx_with(&mut board, |tx, _, mut board| {
        board.get_mut(tx)?.item = Some(PBox::new(tx, Item { n: 5, on: true })?);
        Ok(())
    })
    .map_err(error)
    .unwrap();
    let mut pool = open(pool.close()).unwrap();
    let Audit {
        blocks,
        unreachable,
        ..
    } = pool.audit().unwrap();
    assert_eq!((blocks, unreachable), (5, 0));
    let ((mut a, _), (mut board, _)) = pool.share().unwrap();
    let n = a.tx_with(&mut board, |tx, _, board| {
        Ok(board.get(tx).item.as_ref().map(|i| i.get(tx).n))
    });
    assert_eq!(n.map_err(error), Ok(Some(5)));
}

#[test]
fn a_key_of_another_pool_or_session_is_refused() {
    let (mut words, mut more) = (memory(), memory());
    let mut one = open::<InOrder32>(Region::new(&mut words)).unwrap();
    let mut two = open::<InOrder32>(Region::new(&mut more)).unwrap();
    let ((mut a, _), (mut board, _)) = one.share().unwrap();
    let ((mut b, _), (mut other, _)) = two.share().unwrap();
    let touch = |c: &mut pmem_tx::Context<'_, Own<u32>>, key: &mut Shared<'_, Own<u32>>| {
        c.tx_with(key, |tx, _, mut board| {
            board.get_mut(tx)?.n += 1;
            Ok(board.get(tx).n)
        })
        .map_err(error)
    };
    assert_eq!(touch(&mut a, &mut board), Ok(1));
    assert_eq!(touch(&mut a, &mut other), Err(Error::WrongPool));
    core::mem::swap(&mut board, &mut other);
    assert_eq!(touch(&mut a, &mut board), Err(Error::WrongPool));
    assert_eq!(touch(&mut a, &mut other), Ok(2));
    assert_eq!(touch(&mut b, &mut board), Ok(1));
    // What stands in for a key opens nothing.
    assert_eq!(
        touch(&mut a, &mut Shared::stand_in(0)),
        Err(Error::WrongPool)
    );
}

#[allow(clippy::type_complexity)]
fn init<'p>(
    _: &pmem_tx::Tx<'p>,
) -> Result<((Holder<'p, u32>, u32), (Holder<'p, u32>, Holder<'p, u32>)), Error> {
    Ok(((Holder::empty(), 7), (Holder::empty(), Holder::empty())))
}

/// A prepared transaction that is forgotten keeps its key: nobody else changes what the next open
/// undoes.
#[test]
fn a_forgotten_transaction_keeps_its_key() {
    let mut words = memory();
    let last = |_| 0;
    let mut pool =
        Pool::<Roots<u32>>::open_resolved(Region::new(&mut words), &CONFIG, last, init).unwrap();
    let ((mut a, mut b), (_, mut count)) = pool.share().unwrap();
    let prepare = |c: &mut pmem_tx::Context<'_, Own<u32>>, key: &mut Shared<'_, u32>, end: u8| {
        let p = c.prepare::<_, u32, _>(key, |tx, _, mut count| {
            *count.get_mut(tx)? += 1;
            Ok(*count.get(tx))
        });
        let p = p.map_err(error)?;
        let n = *p.result();
        match end {
            0 => drop(p),
            1 => drop(p.abandon()),
            _ => core::mem::forget(p),
        }
        Ok(n)
    };
    // Undone, so the next one finds 7 again.
    assert_eq!(prepare(&mut a, &mut count, 0), Ok(8));
    assert_eq!(prepare(&mut b, &mut count, 1), Ok(8));
    assert_eq!(prepare(&mut a, &mut count, 2), Ok(8));
    assert_eq!(prepare(&mut a, &mut count, 0), Err(Error::Unfinished));
    assert_eq!(prepare(&mut b, &mut count, 0), Err(Error::Unfinished));
    assert!(matches!(pool.share(), Err(Error::Unfinished)));
    let mut pool = Pool::<Roots<u32>>::open_resolved(pool.close(), &CONFIG, last, init).unwrap();
    let ((_, mut b), (_, mut count)) = pool.share().unwrap();
    assert_eq!(prepare(&mut b, &mut count, 0), Ok(8));
}

/// A body that unwinds gives its key back.
#[test]
fn a_body_that_unwinds_ends() {
    let mut words = memory();
    let mut pool = open::<InOrder32>(Region::new(&mut words)).unwrap();
    let ((mut a, _), (_, mut count)) = pool.share().unwrap();
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = a.tx_with(&mut count, |tx, _, mut count| {
            *count.get_mut(tx)? += 1;
            std::panic::resume_unwind(Box::new(()));
            #[allow(unreachable_code)]
            Ok(())
        });
    }));
    assert!(r.is_err());
    let n = a.tx_with(&mut count, |tx, _, count| Ok(*count.get(tx)));
    assert_eq!(n.map_err(error), Ok(7));
}

/// A pool without shared roots is another format, and the error names both.
#[test]
fn another_format_is_refused_by_name() {
    let mut words = memory();
    let plain =
        Pool::<Contexts<(Own<u32>, Own<u32>)>>::open_with(Region::new(&mut words), &CONFIG, |_| {
            Ok((Holder::empty(), Holder::empty()))
        });
    let r = open::<InOrder32>(plain.unwrap().close()).err().unwrap();
    let OpenError::LayoutMismatch(LayoutMismatch { stored, expected }) = r.error else {
        panic!("{r}");
    };
    assert_eq!((stored.version, expected.version), (1, 2));
    let mut region = r.region;
    region.clear();
    let region = open::<InOrder32>(region).unwrap().close();
    let r = Pool::<Contexts<(Own<u32>, Own<u32>)>>::open_with(region, &CONFIG, |_| {
        Ok((Holder::empty(), Holder::empty()))
    });
    let r = r.err().unwrap();
    assert!(
        matches!(r.error, OpenError::LayoutMismatch(m) if (m.stored.version, m.expected.version) == (2, 1)),
        "{r}"
    );
}

fn image<M: Model>() -> Vec<u8>
where
    M::Unit: Width,
{
    let mut words = memory();
    let mut pool = open::<M>(Region::new(&mut words)).unwrap();
    let ((mut a, _), (mut board, _)) = pool.share().unwrap();
    a.tx_with(&mut board, |tx, _, mut board| {
        board.get_mut(tx)?.item = Some(PBox::new(tx, Item { n: 5, on: true })?);
        Ok(())
    })
    .map_err(error)
    .unwrap();
    pool.close();
    // SAFETY: initialised above, and the padding of what is stored is zero.
    let words = words.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

/// The table: a commit word and a root for each context, and then for each shared root.
#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn golden_table() {
    let image = image::<InOrder32>();
    let words: Vec<u32> = image
        .as_chunks::<4>()
        .0
        .iter()
        .map(|w| u32::from_le_bytes(*w))
        .collect();
    // The newest copy of the superblock: kind, version, the parameters.
    let copy = if words[0] & 0xffff == 0 || words[1] >> 16 == 1 {
        16
    } else {
        0
    };
    assert_eq!(&image[4 * copy + 8..4 * copy + 12], b"POOL");
    assert_eq!(words[copy + 3], 2);
    assert_eq!(words[copy + 6..copy + 14], [2, 6, 40, 5, 4, 640, 0, 2]);
    let table = &words[32..40];
    // Journals of 6 entries and 40 bytes for two contexts, from byte 160 on.
    let heap = words[32 + 1] as usize;
    assert_eq!(
        (table[0], table[2], table[4], table[6]),
        (1, 0, 0, 0),
        "commit words"
    );
    let roots = [table[5], table[7], table[1], table[3]];
    assert!(roots.is_sorted() && heap > 160 + 2 * 88, "{table:?}");
    // The shared roots come first in the heap: an item and a count.
    let shared = roots[0] as usize / 4;
    let item = words[shared + 1] as usize / 4;
    assert_eq!((words[shared], words[item], words[item + 1]), (0, 5, 1));
    assert_eq!(words[roots[1] as usize / 4], 7);
}

/// Any change of one byte gives an error, or a pool that works.
#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn hostile_images() {
    let sound = image::<InOrder32>();
    let (mut refused, mut opened) = (0, 0);
    for at in 0..sound.len() {
        for value in [0, 1, 0x80, 0xff, sound[at] ^ 4, sound[at].wrapping_add(8)] {
            let mut words: Vec<_> = sound
                .as_chunks::<8>()
                .0
                .iter()
                .map(|w| u64::from_ne_bytes(*w))
                .collect();
            words[at / 8] =
                words[at / 8] & !(0xff << (at % 8 * 8)) | u64::from(value) << (at % 8 * 8);
            let mut words: Vec<_> = words.into_iter().map(MaybeUninit::new).collect();
            let Ok(mut pool) = open::<InOrder32>(Region::new(&mut words)) else {
                refused += 1;
                continue;
            };
            opened += 1;
            assert_eq!(pool.audit().unwrap().unreachable, 0);
            let ((_, mut b), (mut board, _)) = pool.share().unwrap();
            let r = b.tx_with(&mut board, |tx, mine, mut board| {
                mine.get_mut(tx)?.item = board.get_mut(tx)?.item.take();
                Ok(())
            });
            r.map_err(error).unwrap();
            assert_eq!(pool.audit().unwrap().unreachable, 0);
        }
    }
    assert!(refused > 100 && opened > 100, "{refused} {opened}");
}

/// Two owners of one object, one of them a shared root.
#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn two_owners_are_refused() {
    let sound = image::<InOrder32>();
    let word = |at: usize| u32::from_le_bytes(sound[at..at + 4].try_into().unwrap());
    let shared = word(128 + 4 * 5) as usize;
    let own = word(128 + 4) as usize;
    let mut bad = sound.clone();
    bad[own + 4..own + 8].copy_from_slice(&sound[shared + 4..shared + 8]);
    for (image, sound) in [(&sound, true), (&bad, false)] {
        let chunks = image.as_chunks::<8>().0.iter();
        let mut words: Vec<_> = chunks
            .map(|w| MaybeUninit::new(u64::from_ne_bytes(*w)))
            .collect();
        let r = open::<InOrder32>(Region::new(&mut words));
        match r {
            Ok(_) => assert!(sound),
            Err(r) => assert!(!sound && matches!(r.error, OpenError::Invalid(_)), "{r}"),
        }
    }
}
