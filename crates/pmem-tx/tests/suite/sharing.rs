//! Shared roots under power cuts: a box goes from a context through a shared root to another one,
//! and on to a third. A context preempts the other at every store, read and fence.
//!
//! `cargo test -p pmem-tx --test suite sharing:: -- --nocapture` prints the number of cuts.

use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use pmem_tx::{
    Config, Context, Contexts, Error, Failed, PBox, Pool, Preempted, Section, Shared, Sharing,
    Width,
};
use powerfail::{Mapped, Summary, World, explore_with, masked};
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// A 16-bit core behind a write buffer.
enum Buffered16 {}
// SAFETY: the fence is the kit's, and nothing else.
unsafe impl Model for Buffered16 {
    type Unit = u16;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-16";
}

enum Masked {}
// SAFETY: the kit runs no interrupt inside of `masked`, and there is one thread.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        masked(f)
    }
}
type On<M> = Preempted<M, Masked>;

/// A context's root, or a shared one: how many boxes it has got, and the newest.
#[derive(Persist)]
#[repr(C)]
struct Holder<'p, W: Width> {
    n: u32,
    item: Option<PBox<'p, [u16; 3], W>>,
}
impl<W: Width> Holder<'_, W> {
    fn empty<'p>() -> Holder<'p, W> {
        Holder { n: 0, item: None }
    }
}
type Own<W> = Holder<'static, W>;
type One<'c, M> = Context<'c, Own<<M as Model>::Unit>, M>;
type Key<'c, M> = Shared<'c, Own<<M as Model>::Unit>, <M as Model>::Unit>;
type Three<W> = Sharing<(Own<W>, Own<W>), Contexts<(Own<W>, Own<W>, Own<W>)>>;
type Opened<'m, M> = Pool<'m, Three<<M as Model>::Unit>, M>;

const BYTES: usize = 704;

/// What is explored.
#[derive(Debug, Clone, Copy)]
struct Case {
    seq_bits: u8,
    /// Transactions of each context before the campaign, so that numbers come round in it.
    before: u32,
    /// Boxes that the first context makes.
    boxes: u32,
    /// The third context runs too.
    third: bool,
    /// The makers begin with an abort.
    abort: bool,
}

fn open<'m, M: Model>(region: Region<'m, M>, case: &Case) -> Opened<'m, M>
where
    M::Unit: Width,
{
    let config = Config {
        journal_entries: 8,
        journal_bytes: 48,
        seq_bits: case.seq_bits,
    };
    Opened::<M>::open_with(region, &config, |_| {
        Ok((
            (Holder::empty(), Holder::empty()),
            (Holder::empty(), Holder::empty(), Holder::empty()),
        ))
    })
    .unwrap_or_else(|r| panic!("open: {r}"))
}

fn content(n: u32) -> [u16; 3] {
    [n as u16, !n as u16, n as u16 ^ 0x55]
}

fn error<A>(f: Failed<A>) -> Error {
    f.error
}

/// The first context makes box `n + 1` and puts it on the board, if there is room.
fn make<M: Model>(c: &mut One<'_, M>, board: &mut Key<'_, M>, abort: bool) -> Result<bool, Error>
where
    M::Unit: Width,
{
    c.tx_with(board, |tx, mine, mut board| {
        if board.get(tx).item.is_some() {
            return Ok(false);
        }
        let n = mine.get(tx).n + 1;
        let b = PBox::new(tx, content(n))?;
        let to = board.get_mut(tx)?;
        (to.n, to.item) = (n, Some(b));
        if abort {
            return Err(tx.abort(1));
        }
        *mine.fields(tx).n.get_mut()? = n;
        Ok(true)
    })
    .map_err(error)
}

/// A context takes the box of a board, and lets go of its own: onto the next board, if it is given
/// and has room; else it is freed.
fn take<M: Model>(
    c: &mut One<'_, M>,
    from: &mut Key<'_, M>,
    to: Option<&mut Key<'_, M>>,
) -> Result<bool, Error>
where
    M::Unit: Width,
{
    let took = c.tx_with(from, |tx, mine, mut from| {
        if mine.get(tx).item.is_some() {
            return Ok(false);
        }
        let Some(b) = from.get_mut(tx)?.item.take() else {
            return Ok(false);
        };
        let mine = mine.get_mut(tx)?;
        mine.n += 1;
        assert_eq!(*b.get(tx), content(mine.n));
        mine.item = Some(b);
        Ok(true)
    });
    let took = took.map_err(error)?;
    let passed = match to {
        Some(to) => c
            .tx_with(to, |tx, mine, mut to| {
                if to.get(tx).item.is_some() || mine.get(tx).item.is_none() {
                    return Ok(false);
                }
                let n = mine.get(tx).n;
                let b = mine.get_mut(tx)?.item.take();
                let to = to.get_mut(tx)?;
                (to.n, to.item) = (n, b);
                Ok(true)
            })
            .map_err(error)?,
        None => c.tx(|tx, mine| {
            let Some(b) = mine.fields(tx).item.get_mut()?.take() else {
                return Ok(false);
            };
            assert_eq!(b.into_inner(tx)?, content(mine.get(tx).n));
            Ok(true)
        })?,
    };
    Ok(took || passed)
}

fn state<M: Model>(c: &mut One<'_, M>) -> (u32, Option<[u16; 3]>)
where
    M::Unit: Width,
{
    let r = c.tx(|tx, mine| {
        Ok((
            mine.get(tx).n,
            mine.get(tx).item.as_ref().map(|b| *b.get(tx)),
        ))
    });
    r.unwrap()
}

fn shown<M: Model>(c: &mut One<'_, M>, key: &mut Key<'_, M>) -> (u32, Option<[u16; 3]>)
where
    M::Unit: Width,
{
    c.tx_with(key, |tx, _, board| {
        let board = board.get(tx);
        Ok((board.n, board.item.as_ref().map(|b| *b.get(tx))))
    })
    .map_err(error)
    .unwrap()
}

/// Boxes made, taken by the second context, and by the third, as the world has seen them.
type Seen = [u32; 3];

fn program<M: Model>(nv: Region<'_, M>, world: &World<'_, Seen>, case: &Case)
where
    M::Unit: Width,
{
    let mut pool = open::<M>(nv, case);
    let audit = pool.audit().unwrap();
    assert_eq!(audit.unreachable, 0);
    let ((mut a, mut b, mut c), (board, relay)) = pool.share().unwrap();
    let (board, relay) = (RefCell::new(board), RefCell::new(relay));
    let check = |a: &mut One<'_, M>, b: &mut One<'_, M>, c: &mut One<'_, M>| {
        let board = shown(a, &mut board.borrow_mut());
        let relay = shown(b, &mut relay.borrow_mut());
        let (made, taken, last) = (state(a), state(b), state(c));
        // Each box is in exactly one place, and they pass in order.
        let on_board = (made.0 > taken.0).then(|| content(made.0));
        assert_eq!(board.1, on_board, "{made:?} {taken:?}");
        assert!(made.0 - taken.0 <= 1 && (made.0 == board.0));
        assert_eq!(made.1, None);
        for (place, n) in [(taken.1, taken.0), (relay.1, relay.0), (last.1, last.0)] {
            assert!(place.is_none_or(|p| p == content(n)), "{place:?} {n}");
        }
        let mut boxes = 0;
        for place in [board.1, taken.1, relay.1, last.1] {
            boxes += place.is_some() as usize;
        }
        ([made.0, taken.0, last.0], boxes)
    };
    let (found, boxes) = check(&mut a, &mut b, &mut c);
    // Five roots, and nothing leaks.
    assert_eq!(audit.blocks, 5 + boxes, "{found:?}");
    for (found, seen) in found.into_iter().zip(world.get()) {
        assert!(found >= seen, "{found} found, {seen} seen");
    }
    world.set(found);
    let low = || {
        let mut abort = case.abort;
        for _ in 0..2 * case.boxes {
            let Ok(mut board) = board.try_borrow_mut() else {
                break;
            };
            if state(&mut a).0 >= case.boxes {
                break;
            }
            match make(&mut a, &mut board, std::mem::take(&mut abort)) {
                Ok(true) => {
                    let n = state(&mut a).0;
                    world.update(|seen| seen[0] = n);
                }
                Ok(false) => break,
                Err(e) => assert_eq!(e, Error::Aborted(1)),
            }
        }
    };
    let high = || {
        // Who holds the lock has been preempted: do without.
        for _ in 0..2 {
            if let (Ok(mut board), Ok(mut relay)) = (board.try_borrow_mut(), relay.try_borrow_mut())
            {
                let relay = case.third.then_some(&mut *relay);
                let took = take(&mut b, &mut board, relay).unwrap();
                let n = state(&mut b).0;
                if took {
                    world.update(|seen| seen[1] = n);
                }
            }
            if case.third
                && let Ok(mut relay) = relay.try_borrow_mut()
                && take(&mut c, &mut relay, None).unwrap()
            {
                let n = state(&mut c).0;
                world.update(|seen| seen[2] = n);
            }
        }
        // Take and give back memory in any case.
        let r = b.tx(|tx, mine| {
            mine.get_mut(tx)?.n += 1;
            let _ = PBox::new(tx, [7u16; 3])?;
            Err::<(), _>(tx.abort(2))
        });
        assert_eq!(r, Err(Error::Aborted(2)));
    };
    world.interrupted(high, low);
    check(&mut a, &mut b, &mut c);
    assert_eq!(pool.audit().unwrap().unreachable, 0);
}

fn image<M: Model>(case: &Case) -> Vec<u8>
where
    M::Unit: Width,
{
    let mut words = vec![MaybeUninit::new(0u64); BYTES / 8];
    let mut pool = open::<M>(Region::new(&mut words), case);
    let ((mut a, mut b, mut c), (mut board, _)) = pool.share().unwrap();
    for _ in 0..case.before {
        for context in [&mut a, &mut b, &mut c] {
            let r = context.tx_with(&mut board, |tx, mine, mut board| {
                board.get_mut(tx)?.n = 0;
                mine.get_mut(tx)?.n = 0;
                Ok(())
            });
            r.map_err(error).unwrap();
        }
    }
    pool.close();
    // SAFETY: initialised above, and these types have no padding with units of 32 bits; with units
    // of 16 bits the padding is zero.
    let words = words.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

fn campaign<M: Model>(case: Case, depth: u32) -> Summary
where
    M::Unit: Width,
{
    let image = image::<M>(&case);
    explore_with(case, Mapped::<M>::new(BYTES), |nv, w, case| {
        program::<M>(nv, w, case)
    })
    .image(image)
    .name(&format!("{case:?}"))
    .limit(24)
    .depth(depth)
    .max_depth(depth)
    .preempt()
    .run()
}

const TWO: Case = Case {
    seq_bits: 4,
    before: 13,
    boxes: 1,
    third: false,
    abort: false,
};

fn told(name: &str, all: &[Summary]) {
    let s = all.iter().fold(Summary::default(), |sum, s| sum + *s);
    println!("{s}");
    println!("sharing.{name}.cuts {}", s.cuts);
    println!("sharing.{name}.points {}", s.points);
    assert!(s.partial || s.cuts > 5_000, "{s}");
}

#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn a_box_changes_hands_between_two() {
    told(
        "two",
        &[
            campaign::<On<InOrder32>>(TWO, 2),
            campaign::<On<InOrder16>>(
                Case {
                    seq_bits: 5,
                    before: 29,
                    ..TWO
                },
                2,
            ),
            campaign::<On<Buffered32>>(Case { abort: true, ..TWO }, 1),
            campaign::<On<Buffered16>>(TWO, 1),
        ],
    );
}

#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn and_on_to_a_third() {
    let three = Case { third: true, ..TWO };
    told(
        "three",
        &[
            campaign::<On<InOrder32>>(
                Case {
                    abort: true,
                    boxes: 2,
                    ..three
                },
                1,
            ),
            campaign::<On<InOrder16>>(three, 1),
            campaign::<On<Buffered32>>(
                Case {
                    seq_bits: 6,
                    before: 61,
                    ..three
                },
                1,
            ),
            campaign::<On<Buffered16>>(three, 1),
        ],
    );
}
