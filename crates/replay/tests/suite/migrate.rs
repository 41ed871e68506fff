//! Threads that share a pool get roots of other types, under power cuts: the old program runs, the
//! new one migrates and runs, and each may be cut anywhere.
//!
//! `cargo test -p nv-replay --test suite migrate:: -- --nocapture` prints the number of cuts.

use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{self, Contexts, Sharing, Width};
use nv_replay::{
    Config, Error, Held, Message, NotNow, OpenError, Options, Outlet, PBox, Port, Threads,
};
use powerfail::{Mapped, Summary, World, explore_with};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A 16-bit core behind a write buffer.
pub enum Buffered16 {}
// SAFETY: the fence is the kit's, and nothing else.
unsafe impl Model for Buffered16 {
    type Unit = u16;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-16";
}

type Content = [u16; 3];
const CONTENT: Content = [1, 2, 3];

/// The first thread's root in the old program.
#[derive(Persist)]
#[repr(C)]
struct Mine<'p, W: Width> {
    n: u32,
    withdrawn: u32,
    item: Option<PBox<'p, Content, W>>,
}
/// And in the new one.
#[derive(Persist)]
#[repr(C)]
struct Later<'p, W: Width> {
    item: Option<PBox<'p, Content, W>>,
    withdrawn: u32,
    n: [u32; 3],
}
type Old<W> = Sharing<(u16,), Contexts<(Mine<'static, W>, u32)>>;
type New<W> = Sharing<([u32; 2],), Contexts<(Later<'static, W>, u64)>>;
/// The first thread's root two versions later.
#[derive(Persist)]
#[repr(C)]
struct Last<'p, W: Width> {
    n: u64,
    withdrawn: u64,
    item: Option<PBox<'p, Content, W>>,
}
type Third<W> = Sharing<(u64,), Contexts<(Last<'static, W>, [u32; 3])>>;
type Opened<'m, T, M> = Result<Threads<'m, T, M>, nv_replay::OpenFailure<'m, M>>;

static PORT: Port<u32> = Port::new(1);

/// What the world has seen.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    /// The new program has run.
    new: bool,
    /// The first migration has begun, of two.
    migrates: bool,
    /// Boots of the old program.
    old_boots: u32,
    /// Messages: thread, number, value.
    sent: BTreeSet<(usize, u32, u32)>,
}

struct Radio<'w> {
    world: &'w World<'w, Seen>,
    thread: usize,
    busy: bool,
}
impl Outlet for Radio<'_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        if self.busy {
            return Err(NotNow);
        }
        let value = m.get(&PORT).unwrap().unwrap();
        self.world.update(|w| {
            w.sent.insert((self.thread, m.number, value));
        });
        Ok(())
    }
}

/// The radio of each thread. A busy one takes no message.
fn radios<'w>(world: &'w World<'w, Seen>, busy: bool) -> [Radio<'w>; 2] {
    [0, 1].map(|thread| Radio {
        world,
        thread,
        busy,
    })
}

fn options<'m>(radio: &'m mut Radio<'_>, version: u16) -> Options<'m> {
    Options {
        outlet: Some(radio),
        version,
        ..Options::default()
    }
}

/// The region of an image of other types. Nothing else may be wrong with it.
fn of_other_types<'m, M: Model>(refused: nv_replay::OpenFailure<'m, M>) -> Region<'m, M> {
    let other = matches!(
        refused.error,
        OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(_))
    );
    assert!(other, "{refused}");
    refused.region
}

/// What is explored.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub seq_bits: u8,
    /// Turns of the first thread before the migration, which use up numbers.
    pub turns: u32,
    /// The radio takes no message of the old program.
    pub busy: bool,
}

pub const BYTES: usize = 1024;

fn table(case: &Case) -> Config {
    Config {
        bytes: 64,
        outbox_bytes: 24,
        seq_bits: case.seq_bits,
    }
}
fn pool(case: &Case) -> Option<pmem_tx::Config> {
    Some(pmem_tx::Config {
        journal_entries: 8,
        journal_bytes: 64,
        seq_bits: case.seq_bits,
    })
}

/// The old program: to its end, or to what it withdraws.
fn old<'m, M: Model>(
    region: Region<'m, M>,
    world: &World<'_, Seen>,
    case: &Case,
) -> Result<Region<'m, M>, nv_replay::OpenFailure<'m, M>>
where
    M::Unit: Width,
{
    let mut all = Threads::<Old<M::Unit>, M>::open(region, table(case), pool(case), |_| {
        let empty = Mine {
            n: 0,
            withdrawn: 0,
            item: None,
        };
        Ok(((0,), (empty, 0)))
    })?;
    assert!(!world.get().new, "the old types are back");
    world.update(|w| w.old_boots += 1);
    {
        let ((one, two), (mut key,)) = all.share().unwrap();
        let [first, second] = &mut radios(world, case.busy);
        let mut one = one.open(options(first, 0)).unwrap();
        let mut two = two.open(options(second, 0)).unwrap();
        one.each(0..case.turns, |_, _| Ok(())).unwrap();
        let h = one
            .named(1)
            .step_own::<_, Held<Content, M::Unit>>((), |tx, _, ()| PBox::new(tx, CONTENT))
            .unwrap();
        let given = one
            .named(2)
            .step((&mut key, h), |tx, mine, (mut board, h)| {
                *board.get_mut(tx)? += 1;
                let mine = mine.get_mut(tx)?;
                (mine.n, mine.item) = (5, Some(h));
                tx.send(&PORT, 7)
            });
        given.map_err(Error::from).unwrap();
        two.step((), |tx, mine, ()| {
            *mine.get_mut(tx)? = 9;
            tx.send(&PORT, 8)
        })
        .unwrap();
        // Only a record holds this one.
        let held = two.step_own::<_, Held<Content, M::Unit>>((), |tx, _, ()| PBox::new(tx, [0; 3]));
        drop(held.unwrap());
        // Done in every second boot: one that was cut may not be done again.
        if world.get().old_boots % 2 == 1 {
            one.named(3)
                .step((), |tx, mine, ()| {
                    mine.get_mut(tx)?.withdrawn = 1;
                    tx.send(&PORT, 999)
                })
                .unwrap();
        }
    }
    Ok(all.close())
}

fn migrated<'m, M: Model>(region: Region<'m, M>, case: &Case) -> Opened<'m, New<M::Unit>, M>
where
    M::Unit: Width,
{
    Threads::<New<M::Unit>, M>::migrate::<Old<M::Unit>, _, _>(
        region,
        table(case),
        pool(case),
        |_| Err(pmem_tx::Error::Aborted(1)),
        |_, ((board,), (a, b))| {
            let Mine { n, withdrawn, item } = a;
            let a = Later {
                item,
                withdrawn,
                n: [n; 3],
            };
            Ok((([board.into(), 0],), (a, b.into())))
        },
    )
}

pub fn program<M: Model>(region: Region<'_, M>, world: &World<'_, Seen>, case: &Case)
where
    M::Unit: Width,
{
    let region = old(region, world, case).unwrap_or_else(of_other_types);
    let mut all = migrated::<M>(region, case).unwrap_or_else(|r| panic!("migrate: {r}"));
    world.update(|w| w.new = true);
    let withdrawn = {
        let ((one, two), (mut key,)) = all.share().unwrap();
        let [first, second] = &mut radios(world, false);
        let mut one = one.open(options(first, 2)).unwrap();
        let mut two = two.open(options(second, 2)).unwrap();
        let done = one.step(&mut key, |tx, mine, mut board| {
            board.get_mut(tx)?[1] += 1;
            mine.get_mut(tx)?.n[2] += 10;
            tx.send(&PORT, 70)
        });
        done.map_err(Error::from).unwrap();
        two.step((), |tx, mine, ()| {
            *mine.get_mut(tx)? += 1;
            tx.send(&PORT, 80)
        })
        .unwrap();
        let board = one.step(&mut key, |tx, _, board| Ok(*board.get(tx)));
        assert_eq!(board.map_err(Error::from), Ok([1, 1]));
        let own = two.view(|tx, mine| *mine.get(tx));
        assert_eq!(own, Ok(Some(10)));
        let (n, item, withdrawn) = one
            .view(|tx, mine| {
                let mine = mine.get(tx);
                (
                    mine.n,
                    mine.item.as_ref().map(|i| *i.get(tx)),
                    mine.withdrawn,
                )
            })
            .unwrap()
            .unwrap();
        assert_eq!((n, item), ([5, 5, 15], Some(CONTENT)));
        withdrawn
    };
    let audit = all.audit().unwrap();
    assert_eq!((audit.blocks, audit.unreachable), (4, 0), "{audit:?}");
    let sent = world.get().sent;
    let of = |thread| {
        let mine = sent.iter().filter(move |s| s.0 == thread);
        mine.map(|s| (s.1, s.2)).collect::<Vec<_>>()
    };
    let values = |thread| of(thread).into_iter().map(|s| s.1).collect::<Vec<_>>();
    let first = match withdrawn {
        0 => vec![7, 70],
        _ => vec![7, 999, 70],
    };
    assert_eq!(values(0), first, "{sent:?}");
    assert_eq!(values(1), [8, 80], "{sent:?}");
    for thread in 0..2 {
        let numbers: BTreeSet<_> = of(thread).into_iter().map(|s| s.0).collect();
        assert_eq!(numbers.len(), of(thread).len(), "a number twice: {sent:?}");
    }
}

fn campaign<M: Model>(case: Case, depth: u32) -> Summary
where
    M::Unit: Width,
{
    explore_with(case, Mapped::<M>::new(BYTES), |nv, w, case| {
        program::<M>(nv, w, case)
    })
    .name(&format!("{} {case:?}", M::NAME))
    .depth(depth)
    .sample(SAMPLE)
    .one_in(2)
    .run()
}

/// States that are drawn of a cut; all of them in long campaigns. A whole campaign of depth 2 makes
/// 2.6 million cuts.
const SAMPLE: usize = 12;

const PLAIN: Case = Case {
    seq_bits: 16,
    turns: 0,
    busy: false,
};
/// The migration's number is at the end of a round.
const NARROW: Case = Case {
    seq_bits: 4,
    turns: 10,
    busy: false,
};
const BUSY: Case = Case {
    busy: true,
    seq_bits: 5,
    ..PLAIN
};

/// Each case is cut, one of them in each run twice.
fn all<M: Model>()
where
    M::Unit: Width,
{
    for (i, case) in [PLAIN, NARROW, BUSY].into_iter().enumerate() {
        let s = campaign::<M>(case, crate::turns::in_turn(i as u64, 3));
        println!("{} {case:?}: {s}", M::NAME);
        assert!(s.partial || s.boots > 100, "{s}");
    }
}

#[test]
fn in_order_32() {
    all::<InOrder32>()
}
#[test]
fn in_order_16() {
    all::<InOrder16>()
}
#[test]
fn buffered_32() {
    all::<Buffered32>()
}
#[test]
fn buffered_16() {
    all::<Buffered16>()
}

/// Opens with the version after the next one, which knows the types of the next one only.
fn migrated_again<'m, M: Model>(region: Region<'m, M>, case: &Case) -> Opened<'m, Third<M::Unit>, M>
where
    M::Unit: Width,
{
    Threads::<Third<M::Unit>, M>::migrate::<New<M::Unit>, _, _>(
        region,
        table(case),
        pool(case),
        |_| Err(pmem_tx::Error::Aborted(1)),
        |_, ((board,), (a, b))| {
            let a = Last {
                n: a.n.iter().map(|n| u64::from(*n)).sum(),
                withdrawn: a.withdrawn.into(),
                item: a.item,
            };
            Ok(((u64::from(board[0]),), (a, [b as u32; 3])))
        },
    )
}

/// The old program runs once, and the next version migrates and runs once. After a cut, the version
/// after that comes, at every boot. If the first migration is not committed, that version's own is
/// refused and nothing has changed: it migrates by way of the next version's types.
pub fn twice<M: Model>(region: Region<'_, M>, world: &World<'_, Seen>, case: &Case)
where
    M::Unit: Width,
{
    let mut region = Some(region);
    if !world.get().migrates {
        let done = old(region.take().unwrap(), world, case).unwrap_or_else(|r| panic!("{r}"));
        world.update(|w| w.migrates = true);
        let mut all = migrated::<M>(done, case).unwrap_or_else(|r| panic!("migrate: {r}"));
        world.update(|w| w.new = true);
        {
            let ((one, _), _) = all.share().unwrap();
            let [first, _] = &mut radios(world, case.busy);
            let mut one = one.open(options(first, 2)).unwrap();
            one.step((), |tx, mine, ()| {
                mine.get_mut(tx)?.n[2] += 10;
                tx.send(&PORT, 70)
            })
            .unwrap();
        }
        region = Some(all.close());
    }
    let opened = migrated_again::<M>(region.take().unwrap(), case);
    let mut all = opened.unwrap_or_else(|refused| {
        let region = of_other_types(refused);
        assert!(!world.get().new, "the old types are back");
        let all = migrated::<M>(region, case).unwrap_or_else(|r| panic!("migrate: {r}"));
        world.update(|w| w.new = true);
        migrated_again(all.close(), case).unwrap_or_else(|r| panic!("migrate again: {r}"))
    });
    world.update(|w| w.new = true);
    let (n, withdrawn) = {
        let ((one, two), (mut key,)) = all.share().unwrap();
        let [first, second] = &mut radios(world, false);
        let mut one = one.open(options(first, 3)).unwrap();
        let mut two = two.open(options(second, 3)).unwrap();
        one.step((), |tx, _, ()| tx.send(&PORT, 71)).unwrap();
        two.step((), |tx, _, ()| tx.send(&PORT, 81)).unwrap();
        let board = one.step(&mut key, |tx, _, board| Ok(*board.get(tx)));
        assert_eq!(board.map_err(Error::from), Ok(1));
        let own = two.view(|tx, mine| *mine.get(tx));
        assert_eq!(own, Ok(Some([9; 3])));
        let seen = one.view(|tx, mine| {
            let mine = mine.get(tx);
            let item = mine.item.as_ref().map(|i| *i.get(tx));
            (mine.n, mine.withdrawn, item)
        });
        let (n, withdrawn, item) = seen.unwrap().unwrap();
        assert_eq!(item, Some(CONTENT));
        assert!(n == 15 || n == 25, "{n}");
        (n, withdrawn)
    };
    let audit = all.audit().unwrap();
    assert_eq!((audit.blocks, audit.unreachable), (4, 0), "{audit:?}");
    let sent = world.get().sent;
    let values = |thread| {
        let mine = sent.iter().filter(move |s| s.0 == thread);
        mine.map(|s| s.2).collect::<Vec<_>>()
    };
    let mut first = vec![7];
    first.extend((withdrawn != 0).then_some(999));
    first.extend((n == 25).then_some(70));
    first.push(71);
    assert_eq!(values(0), first, "{sent:?}");
    assert_eq!(values(1), [8, 81], "{sent:?}");
}

fn all_twice<M: Model>()
where
    M::Unit: Width,
{
    for case in [PLAIN, NARROW, BUSY] {
        let s = explore_with(case, Mapped::<M>::new(BYTES), |nv, w, case| {
            twice::<M>(nv, w, case)
        })
        .name(&format!("twice {} {case:?}", M::NAME))
        .depth(1)
        .sample(SAMPLE)
        .run();
        println!("twice {} {case:?}: {s}", M::NAME);
        assert!(s.partial || s.boots > 50, "{s}");
    }
}

#[test]
fn a_second_migration_after_a_cut_in_the_first() {
    all_twice::<InOrder32>();
    all_twice::<InOrder16>();
    all_twice::<Buffered32>();
}

/// What a program says that does not know the old types, and one that gives the migration up.
#[test]
fn what_is_refused() {
    let mut words = vec![MaybeUninit::new(0u64); BYTES / 8];
    let region = Region::<InOrder32>::new(&mut words);
    let all = Threads::<Old<u32>>::open(region, table(&PLAIN), None, |_| {
        let empty = Mine {
            n: 1,
            withdrawn: 0,
            item: None,
        };
        Ok(((2,), (empty, 3)))
    });
    let all = all.unwrap_or_else(|r| panic!("{r}"));
    let refused = Threads::<New<u32>>::open(all.close(), table(&PLAIN), None, |_| {
        Err(pmem_tx::Error::Aborted(1))
    });
    let refused = refused.err().unwrap();
    assert!(matches!(
        refused.error,
        OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(_))
    ));
    let given_up = Threads::<New<u32>>::migrate::<Old<u32>, _, _>(
        refused.region,
        table(&PLAIN),
        None,
        |_| Err(pmem_tx::Error::Aborted(1)),
        |tx, _| Err(tx.abort(77)),
    );
    let refused = given_up.err().unwrap();
    let aborted = pmem_tx::Error::Aborted(77);
    assert_eq!(
        refused.error,
        OpenError::Pool(pmem_tx::OpenError::Init(aborted))
    );
    // Nothing has changed for the old program.
    let mut all = Threads::<Old<u32>>::open(refused.region, table(&PLAIN), None, |_| {
        Err(pmem_tx::Error::Aborted(1))
    })
    .unwrap();
    {
        let ((one, two), (mut key,)) = all.share().unwrap();
        let mut one = one.open(Options::default()).unwrap();
        let mut two = two.open(Options::default()).unwrap();
        let read = one.step(&mut key, |tx, mine, board| {
            Ok((mine.get(tx).n, *board.get(tx)))
        });
        assert_eq!(read.map_err(Error::from), Ok((1, 2)));
        let own = two.step((), |tx, mine, ()| Ok(*mine.get(tx)));
        assert_eq!(own.unwrap(), 3);
    }
    // A later version knows only the types of the one before it.
    type Third = Sharing<(u64,), Contexts<(u32, u32)>>;
    let refused = Threads::<Third>::migrate::<New<u32>, _, _>(
        all.close(),
        table(&PLAIN),
        None,
        |_| Ok(((0,), (0, 0))),
        |_, ((board,), (a, _))| Ok(((board[0].into(),), (a.n[0], a.withdrawn))),
    );
    assert!(matches!(
        refused.err().unwrap().error,
        OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(_))
    ));
}

/// An outlet that ends the program, as a power cut between a commit and its messages does.
struct Dies;
impl Outlet for Dies {
    fn send(&mut self, _: &Message<'_>) -> Result<(), NotNow> {
        std::panic::resume_unwind(Box::new(()))
    }
}

struct Received(Vec<u32>);
impl Outlet for Received {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        self.0.push(m.get(&PORT).unwrap().unwrap());
        Ok(())
    }
}

#[test]
fn a_message_that_waits_is_sent_after_the_migration() {
    let mut memory = vec![MaybeUninit::new(0u64); BYTES / 8];
    let sends = || {
        let region = Region::<InOrder32>::new(&mut memory);
        let all = Threads::<Old<u32>>::open(region, table(&PLAIN), pool(&PLAIN), |_| {
            let empty = Mine {
                n: 0,
                withdrawn: 0,
                item: None,
            };
            Ok(((0,), (empty, 0)))
        });
        let mut all = all.map_err(|refused| refused.error).unwrap();
        let ((one, _), _) = all.share().unwrap();
        let options = Options {
            outlet: Some(&mut Dies),
            ..Options::default()
        };
        let mut one = one.open(options).unwrap();
        let _ = one.step((), |tx, _, ()| tx.send(&PORT, 7));
    };
    assert!(catch_unwind(AssertUnwindSafe(sends)).is_err());
    let all = migrated::<InOrder32>(Region::new(&mut memory), &PLAIN);
    let mut all = all.map_err(|refused| refused.error).unwrap();
    let ((one, _), _) = all.share().unwrap();
    let mut radio = Received(Vec::new());
    let options = Options {
        outlet: Some(&mut radio),
        version: 2,
        ..Options::default()
    };
    drop(one.open(options).unwrap());
    assert_eq!(radio.0, [7]);
}
