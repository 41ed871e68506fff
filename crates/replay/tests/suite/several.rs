//! Several threads on one pool: what is refused, what a place takes, what is reclaimed, and how
//! much memory a thread takes.

use nv_replay::nvmem::{InOrder16, InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{self, Contexts, Preempted, Section, Sharing, Width};
use nv_replay::{
    Config, Error, Held, Message, NotNow, OpenError, Options, Outlet, PBox, Port, Replay, Threads,
    Update, last_committed, last_committed_of,
};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::Mutex;

const TABLE: Config = Config {
    bytes: 48,
    outbox_bytes: 0,
    seq_bits: 8,
};
const POOL: pmem_tx::Config = pmem_tx::Config {
    journal_entries: 6,
    journal_bytes: 48,
    seq_bits: 8,
};

#[derive(Persist)]
#[repr(C)]
struct Board<'p> {
    n: u32,
    item: Option<PBox<'p, u32>>,
}
type Three = Sharing<(Board<'static>,), Contexts<(u32, u32, u32)>>;
type Opened<'m> = Threads<'m, Three>;

fn memory(bytes: usize) -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); bytes / 8]
}

fn open(region: Region<'_, InOrder32>) -> Opened<'_> {
    let all = Opened::open(region, TABLE, Some(POOL), |_| {
        Ok(((Board { n: 0, item: None },), (0, 0, 0)))
    });
    all.unwrap_or_else(|r| panic!("open: {r}"))
}

fn version<'m>(version: u16, update: Update) -> Options<'m> {
    Options {
        version,
        update,
        ..Options::default()
    }
}

#[test]
fn one_table_and_several_refuse_each_other_by_name() {
    let mut words = memory(2048);
    let region = open(Region::new(&mut words)).close();
    let refused = Replay::<u32>::open(region, Options::default(), |_| Ok(0))
        .err()
        .unwrap();
    assert_eq!(refused.error, OpenError::FormatVersion { stored: 7 });
    assert!(refused.error.to_string().contains("several threads"));
    let refused = last_committed(&refused.region).unwrap_err();
    assert_eq!(refused, OpenError::FormatVersion { stored: 7 });

    let mut words = memory(2048);
    let region = Replay::<u32>::open(
        Region::<InOrder32>::new(&mut words),
        Options::default(),
        |_| Ok(0),
    );
    let region = region.unwrap_or_else(|r| panic!("{r}")).close();
    let refused = Opened::open(region, TABLE, None, |_| unreachable!())
        .err()
        .unwrap();
    assert_eq!(refused.error, OpenError::FormatVersion { stored: 5 });
    assert!(refused.error.to_string().contains("one program"));
    let refused = last_committed_of(&refused.region, 0).unwrap_err();
    assert_eq!(refused, OpenError::FormatVersion { stored: 5 });
}

#[test]
fn other_roots_are_refused() {
    let mut words = memory(2048);
    let region = open(Region::new(&mut words)).close();
    type Other = Sharing<(Board<'static>,), Contexts<(u32, u32, u16)>>;
    let refused = Threads::<Other>::open(region, TABLE, None, |_| unreachable!());
    let refused = refused.err().unwrap();
    let layout = matches!(
        refused.error,
        OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(_))
    );
    assert!(layout, "{}", refused.error);
}

#[test]
fn places_are_handed_out_once() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    assert!(all.share().is_ok());
    assert_eq!(all.share().err(), Some(OpenError::Shared));
    let mut all = open(all.close());
    assert_eq!(all.audit().unwrap().unreachable, 0);
    assert_eq!(all.share().err(), Some(OpenError::Shared));
    assert!(open(all.close()).share().is_ok());
}

/// Only the thread that got a handle consumes it: nobody else's table would say so.
#[test]
fn a_handle_of_another_thread_is_refused() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    let ((one, two, _), (mut board,)) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    let mut two = two.open(Options::default()).unwrap();
    let h = one
        .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 5))
        .unwrap();
    let back = two.step(h, |tx, _, h| h.into_inner(tx)).err().unwrap();
    assert_eq!(back.error, Error::WrongPool);
    let mut h = back.args;
    let lent = two.step(h.lend(), |tx, _, h| Ok(*h.get(tx))).err().unwrap();
    assert_eq!(lent.error, Error::WrongPool);
    // It changes hands in the shared root.
    let put = one.step((&mut board, h), |tx, _, (mut board, h)| {
        board.get_mut(tx)?.item = Some(h);
        Ok(())
    });
    assert!(put.is_ok());
    let got = two.step(&mut board, |tx, mine, mut board| {
        let got = board.get_mut(tx)?.item.take();
        let Some(got) = got else { return Ok(0) };
        let got = got.into_inner(tx)?;
        *mine.get_mut(tx)? += got;
        Ok(got)
    });
    assert_eq!(got.map_err(Error::from), Ok(5));
    assert_eq!(all.audit().unwrap().unreachable, 0);
}

#[test]
fn a_key_of_another_opening_is_refused() {
    let (mut words, mut more) = (memory(2048), memory(2048));
    let (mut all, mut other) = (open(Region::new(&mut words)), open(Region::new(&mut more)));
    let ((one, ..), _) = all.share().unwrap();
    let (_, (mut key,)) = other.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    let r = one.step(&mut key, |tx, _, mut board| {
        board.get_mut(tx)?.n += 1;
        Ok(())
    });
    assert_eq!(r.err().map(|e| e.error), Some(Error::WrongPool));
}

/// A key that is used again and again, also by steps that fail or unwind.
#[test]
fn a_step_gives_its_key_back() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    let ((one, ..), (mut key,)) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    let r = one.step(&mut key, |tx, _, mut board| {
        board.get_mut(tx)?.n = 9;
        Err::<(), _>(tx.abort(1))
    });
    assert_eq!(r.err().map(|e| e.error), Some(Error::Aborted(1)));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = one.step(&mut key, |tx, _, mut board| {
            board.get_mut(tx)?.n = 8;
            std::panic::resume_unwind(Box::new(()));
            #[allow(unreachable_code)]
            Ok(())
        });
    }));
    assert!(caught.is_err());
    let r = one.step(&mut key, |tx, _, mut board| {
        board.get_mut(tx)?.n += 1;
        Ok(board.get(tx).n)
    });
    assert_eq!(r.map_err(Error::from), Ok(1));
    // The slow path: a result with a handle.
    let h = one.step_own::<_, Held<u32>>(&mut key, |tx, _, mut board| {
        board.get_mut(tx)?.n += 1;
        PBox::new(tx, 1)
    });
    let h = h.map_err(Error::from).unwrap();
    let r = one.step((&mut key, h), |tx, _, (board, h)| {
        h.into_inner(tx)?;
        Ok(board.get(tx).n)
    });
    assert_eq!(r.map_err(Error::from), Ok(2));
}

/// An argument that says of itself whether it is in use, as a key does.
struct Probe<'a> {
    in_use: bool,
    log: &'a RefCell<Vec<&'static str>>,
}
// SAFETY: it has no handle.
unsafe impl pmem_tx::Arg for Probe<'_> {
    type In<'p> = ();
    const TYPE: u64 = 7;
    const OWNED: usize = 0;
    fn of_session(&self, _: u32) -> bool {
        true
    }
    fn in_use(&self) -> bool {
        self.in_use
    }
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    fn bytes(&self, _: &mut dyn FnMut(&[u8])) {}
    unsafe fn enter<'p>(&self) -> Self::In<'p> {
        self.log.borrow_mut().push("enter");
    }
    unsafe fn ended(&self) {
        self.log.borrow_mut().push("ended");
    }
}

#[test]
fn an_argument_in_use_is_not_entered() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    let ((one, ..), _) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    let log = RefCell::new(Vec::new());
    let probe = |in_use| Probe { in_use, log: &log };
    let r = one.step(probe(true), |_, _, ()| Ok(()));
    assert_eq!(r.err().map(|e| e.error), Some(Error::KeyInUse));
    let r = one.step_own::<_, Held<u32>>(probe(true), |tx, _, ()| PBox::new(tx, 1));
    assert_eq!(r.err().map(|e| e.error), Some(Error::KeyInUse));
    assert!(log.borrow().is_empty(), "{log:?}");
    one.step(probe(false), |_, _, ()| Ok(())).ok().unwrap();
    assert_eq!(log.take(), ["enter", "ended"]);
    let r = one.step_own::<_, Held<u32>>(probe(false), |tx, _, ()| PBox::new(tx, 1));
    assert!(r.is_ok());
    assert_eq!(log.take(), ["enter", "ended"]);
}

/// Loses an object: its record is gone with its iteration.
fn lose(rt: &mut nv_replay::Thread<'_, u32>) {
    let r = rt.each(0..1, |rt, _| {
        let _ = rt.step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 1))?;
        Ok(())
    });
    r.unwrap();
}

#[test]
fn the_last_thread_reclaims_and_a_reserved_place_does_not_count() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    let ((one, two, _), _) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    let mut two = two.open(Options::default()).unwrap();
    lose(&mut one);
    let kept = two
        .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 2))
        .unwrap();
    // The records of both own it, or nobody does.
    drop(kept);
    assert_eq!(all.audit().unwrap().unreachable, 2);

    // The first thread passes its records. The second one has not passed its own.
    let mut all = open(all.close());
    let ((one, two, _), _) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    lose(&mut one);
    assert!(one.is_live());
    let _not_opened = two;
    assert_eq!(all.audit().unwrap().unreachable, 2);

    // Now both. What the record owns stays.
    let mut all = open(all.close());
    let ((one, two, _), _) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    lose(&mut one);
    let mut two = two.open(Options::default()).unwrap();
    assert!(!two.is_live());
    let kept = two
        .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 2))
        .unwrap();
    assert!(two.is_live());
    let read = two.step(kept, |tx, _, kept| kept.into_inner(tx));
    assert_eq!(read.map_err(Error::from), Ok(2));
    assert_eq!(all.audit().unwrap().unreachable, 0);
}

#[test]
fn a_reserved_place_takes_any_version_and_is_used_again() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    let ((_, _, three), _) = all.share().unwrap();
    let mut three = three.open(version(7, Update::Refuse)).unwrap();
    let step = |rt: &mut nv_replay::Thread<'_, u32>| {
        let n = rt.step((), |tx, n, ()| {
            *n.get_mut(tx)? += 1;
            Ok(*n.get(tx))
        });
        n.map_err(Error::from)
    };
    assert_eq!(step(&mut three), Ok(1));
    // The same thread again.
    let mut all = open(all.close());
    let ((_, _, three), _) = all.share().unwrap();
    let mut three = three.open(version(7, Update::Refuse)).unwrap();
    assert_eq!(step(&mut three), Ok(1));
    // Another thread in its place.
    let mut all = open(all.close());
    let ((_, _, three), _) = all.share().unwrap();
    let refused = three.open(version(8, Update::Refuse)).err();
    assert_eq!(refused, Some(OpenError::OtherVersion { recorded: 7 }));
    let mut all = open(all.close());
    let ((_, _, three), _) = all.share().unwrap();
    let mut three = three.open(version(8, Update::StartOver)).unwrap();
    assert_eq!(step(&mut three), Ok(2));
    let region = all.close();
    let n = last_committed_of(&region, 2).expect("a table");
    assert!(n.get() > 1);
    let n = last_committed_of(&region, 0).expect("a table");
    assert_eq!(
        n.get(),
        255,
        "nothing is committed: the number after it is 1"
    );
    let n = last_committed_of(&region, 3).expect("a table");
    assert_eq!(n.get(), 0);
}

#[test]
fn a_thread_starts_over_while_others_run() {
    let mut words = memory(2048);
    let mut all = open(Region::new(&mut words));
    let ((_, two, three), _) = all.share().unwrap();
    let mut two = two.open(Options::default()).unwrap();
    let mut three = three.open(version(7, Update::Refuse)).unwrap();
    let step = |rt: &mut nv_replay::Thread<'_, u32>, i: u32| {
        let n = rt.step(i, |tx, n, i| {
            *n.get_mut(tx)? += i;
            Ok(*n.get(tx))
        });
        n.map_err(Error::from)
    };
    // Several runs in one life, one that fills the table and one that has diverged.
    assert_eq!(step(&mut two, 1), Ok(1));
    for run in 0..4 {
        assert_eq!(step(&mut three, 1), Ok(10 * run + 1));
        lose(&mut three);
        assert_eq!(step(&mut three, 9), Ok(10 * run + 10));
        three.start_over().unwrap();
        assert!(three.is_live());
    }
    let mut sum = 40;
    while step(&mut three, 1).is_ok() {
        sum += 1;
    }
    assert_eq!(step(&mut three, 1), Err(Error::TableFull));
    three.start_over().unwrap();
    assert_eq!(step(&mut three, 2), Ok(sum + 2));

    // In the next life, in the middle of the replay.
    let mut all = open(all.close());
    let ((_, two, three), _) = all.share().unwrap();
    let mut two = two.open(Options::default()).unwrap();
    let mut three = three.open(version(7, Update::Refuse)).unwrap();
    assert_eq!(step(&mut three, 3), Err(Error::Diverged));
    three.start_over().unwrap();
    assert_eq!(three.divergence(), None);
    assert_eq!(step(&mut three, 3), Ok(sum + 5));
    assert_eq!(step(&mut two, 1), Ok(1));

    // A place without its thread; the last thread that passes its records reclaims.
    let mut all = open(all.close());
    let ((_, two, three), _) = all.share().unwrap();
    let three = three.start_over().unwrap();
    let mut two = two.open(Options::default()).unwrap();
    assert_eq!(step(&mut two, 1), Ok(1));
    let three = three.start_over().unwrap();
    let mut three = three.open(version(7, Update::Refuse)).unwrap();
    assert!(three.is_live());
    assert_eq!(step(&mut three, 1), Ok(sum + 6));
    assert_eq!(all.audit().unwrap().unreachable, 0);
}

#[test]
fn records_are_kept_unless_a_later_one_has_consumed_a_handle() {
    for consume in [false, true] {
        let mut words = memory(2048);
        let mut all = open(Region::new(&mut words));
        let ((one, ..), _) = all.share().unwrap();
        let mut one = one.open(version(1, Update::Refuse)).unwrap();
        let h = one
            .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 4))
            .unwrap();
        if consume {
            one.step(h, |tx, _, h| h.into_inner(tx)).ok().unwrap();
        } else {
            one.step((), |_, _, ()| Ok(())).ok().unwrap();
        }
        let mut all = open(all.close());
        let ((one, ..), _) = all.share().unwrap();
        let kept = one.open(version(2, Update::Keep(1)));
        if consume {
            assert_eq!(kept.err(), Some(OpenError::Keep(Error::WrongPool)));
            continue;
        }
        let mut one = kept.unwrap();
        assert!(!one.is_live());
        let h = one
            .step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 4))
            .unwrap();
        assert!(one.is_live());
        let four = one
            .step(h, |tx, _, h| h.into_inner(tx))
            .map_err(Error::from);
        assert_eq!(four, Ok(4));
        assert_eq!(all.audit().unwrap().unreachable, 0);
    }
}

static PORT: Port<u16> = Port::new(1);
/// Refuses the messages until it may send.
struct Radio<'a> {
    may: bool,
    sent: &'a RefCell<Vec<u32>>,
}
impl Outlet for Radio<'_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        if !self.may {
            return Err(NotNow);
        }
        self.sent.borrow_mut().push(m.number);
        Ok(())
    }
}

#[test]
fn each_thread_has_an_outbox() {
    let mut words = memory(2048);
    let table = Config {
        outbox_bytes: 8,
        ..TABLE
    };
    let open = |region| {
        let all = Threads::<Three>::open(region, table, Some(POOL), |_| {
            Ok(((Board { n: 0, item: None },), (0, 0, 0)))
        });
        all.unwrap_or_else(|r| panic!("{r}"))
    };
    let sent = RefCell::new(Vec::new());
    let radio = |may| Radio { may, sent: &sent };
    let mut all = open(Region::new(&mut words));
    let ((one, two, _), _) = all.share().unwrap();
    let mut one = one.open_with(Options::default(), radio(false)).unwrap();
    let mut two = two.open_with(Options::default(), radio(true)).unwrap();
    one.step((), |tx, _, ()| tx.send(&PORT, 5)).ok().unwrap();
    two.step((), |tx, _, ()| tx.send(&PORT, 6)).ok().unwrap();
    assert!(one.waits());
    assert_eq!(sent.take(), [0]);
    let mut all = open(all.close());
    let ((one, two, _), _) = all.share().unwrap();
    drop(two.open_with(Options::default(), radio(true)).unwrap());
    assert!(sent.borrow().is_empty());
    let one = one.open_with(Options::default(), radio(true)).unwrap();
    assert_eq!((one.waits(), sent.take()), (false, vec![0]));
}

/// Free bytes of a region of this length with threads of the smallest roots.
macro_rules! free {
    ($threads:ty, $init:expr) => {{
        let mut words = memory(4096);
        let region = Region::<InOrder32>::new(&mut words);
        let table = Config { bytes: 32, ..TABLE };
        let all = Threads::<$threads>::open(region, table, Some(POOL), |_| Ok($init));
        all.unwrap_or_else(|r| panic!("{r}")).audit().unwrap().free
    }};
}

#[test]
fn a_thread_takes_at_most_184_bytes_beside_its_journal() {
    let two = free!(Sharing<(u32,), Contexts<(u32, u32)>>, ((0,), (0, 0)));
    let three = free!(Sharing<(u32,), Contexts<(u32, u32, u32)>>, ((0,), (0, 0, 0)));
    let journal = usize::from(POOL.journal_entries) * 8 + POOL.journal_bytes as usize;
    let each = two - three - journal;
    println!("threads.nvm_per_thread {each}");
    assert!(each <= 184, "{each}");
}

enum Locked {}
static LOCK: Mutex<()> = Mutex::new(());
// SAFETY: a lock.
unsafe impl Section for Locked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        let _guard = LOCK.lock();
        f()
    }
}

/// Threads of the host run at the same time: for Miri, which sees what is not in a section.
fn in_parallel<M: Model>()
where
    M::Unit: Width,
{
    type Roots<W> = Sharing<(Option<PBox<'static, u32, W>>,), Contexts<(u32, u32)>>;
    type All<'m, M> = Threads<'m, Roots<<M as Model>::Unit>, Preempted<M, Locked>>;
    type One<'c, M> = nv_replay::Thread<'c, u32, Preempted<M, Locked>>;
    type Handle<M> = Held<u32, <M as Model>::Unit>;
    let mut words = memory(2048);
    let mut region = Region::new(&mut words);
    for _ in 0..3 {
        let all = All::<M>::open(region, TABLE, Some(POOL), |_| Ok(((None,), (0, 0))));
        let mut all = all.unwrap_or_else(|r| panic!("{r}"));
        let ((one, two), (board,)) = all.share().unwrap();
        let board = &Mutex::new(board);
        std::thread::scope(|s| {
            for place in [one, two] {
                s.spawn(move || {
                    let mut rt: One<'_, M> = place.open(Options::default()).unwrap();
                    let mut mine = rt.step_own::<_, Handle<M>>((), |tx, _, ()| PBox::new(tx, 1))?;
                    rt.each(0..2, |rt, i| {
                        let lost = rt.step_own::<_, Handle<M>>(i, |tx, _, i| PBox::new(tx, i))?;
                        drop(lost);
                        Ok(())
                    })
                    .unwrap();
                    let board = &mut *board.lock().unwrap();
                    let r = rt.step((board, mine.lend()), |tx, n, (mut board, mut mine)| {
                        *mine.get_mut(tx)? += 1;
                        *n.get_mut(tx)? += 1;
                        let new = PBox::new(tx, *n.get(tx))?;
                        if let Some(old) = board.get_mut(tx)?.replace(new) {
                            old.into_inner(tx)?;
                        }
                        Ok(())
                    });
                    r.map_err(Error::from).unwrap();
                    Ok::<_, Error>(())
                });
            }
        });
        region = all.close();
    }
}

#[test]
fn threads_of_the_host() {
    in_parallel::<InOrder32>();
    in_parallel::<InOrder16>();
}

/// Counts calls of `exclusive` in this thread.
enum Counted {}
std::thread_local! {
    static EXCLUSIVE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}
// SAFETY: one thread of the host.
unsafe impl Section for Counted {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    fn exclusive<R>(f: impl FnOnce() -> R) -> R {
        EXCLUSIVE.set(EXCLUSIVE.get() + 1);
        f()
    }
}

/// Each handle that a replay adopts is checked while no other thread adopts.
#[test]
fn adoptions_exclude_each_other() {
    type Two<'m> =
        Threads<'m, Sharing<(u32,), Contexts<(u32, u32)>>, Preempted<InOrder32, Counted>>;
    let mut words = memory(2048);
    let mut region = Some(Region::new(&mut words));
    for adopted in [0, 2] {
        let region_now = region.take().expect("given back");
        let mut all = Two::open(region_now, TABLE, Some(POOL), |_| Ok(((0,), (0, 0))))
            .unwrap_or_else(|r| panic!("open: {r}"));
        EXCLUSIVE.set(0);
        let ((one, two), _) = all.share().unwrap();
        for place in [one, two] {
            let mut rt = place.open(Options::default()).unwrap();
            let h = rt.step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 5));
            assert!(h.is_ok());
        }
        assert_eq!(EXCLUSIVE.get(), adopted);
        region = Some(all.close());
    }
}

/// All roots are made anew, with their handles: for Miri, as roots are moved out of the medium and
/// back.
fn migrated<M: Model>()
where
    M::Unit: Width,
{
    type Item<W> = Option<PBox<'static, u32, W>>;
    type Old<W> = Sharing<(Item<W>, u16), Contexts<(Item<W>, u32)>>;
    #[derive(Persist)]
    #[repr(C)]
    struct Pair<'p, W: Width> {
        n: u32,
        item: Option<PBox<'p, u32, W>>,
    }
    type New<W> = Sharing<(Pair<'static, W>, u64), Contexts<([u32; 3], Pair<'static, W>)>>;
    let mut words = memory(2048);
    let pool = Some(pmem_tx::Config {
        journal_entries: 14,
        journal_bytes: 96,
        ..POOL
    });
    let old = Threads::<Old<M::Unit>, M>::open(Region::new(&mut words), TABLE, pool, |tx| {
        Ok(((Some(PBox::new(tx, 5)?), 6), (Some(PBox::new(tx, 7)?), 8)))
    });
    let mut old = old.unwrap_or_else(|r| panic!("{r}"));
    {
        let ((_, two), _) = old.share().unwrap();
        let mut two = two.open(Options::default()).unwrap();
        // Only its record holds this one.
        let held = two.step_own::<_, Held<u32, M::Unit>>((), |tx, _, ()| PBox::new(tx, 9));
        drop(held.unwrap());
    }
    let new = Threads::<New<M::Unit>, M>::migrate::<Old<M::Unit>, _, _>(
        old.close(),
        TABLE,
        None,
        |_| Err(pmem_tx::Error::Aborted(1)),
        |tx, ((item, n), (mine, m))| {
            let mine = mine.ok_or(tx.abort(2))?.into_inner(tx)?;
            let other = Some(PBox::new(tx, mine)?);
            let (item, other) = (Pair { n: 1, item }, Pair { n: 2, item: other });
            Ok(((item, n.into()), ([m; 3], other)))
        },
    );
    let mut new = new.unwrap_or_else(|r| panic!("{r}"));
    {
        let ((one, two), (mut item, mut n)) = new.share().unwrap();
        let mut one = one.open(Options::default()).unwrap();
        let mut two = two.open(Options::default()).unwrap();
        let read = one.step((&mut item, &mut n), |tx, mine, (mut item, n)| {
            let item = item.get_mut(tx)?;
            item.n += 1;
            let item = item.item.take().ok_or(tx.abort(3))?.into_inner(tx)?;
            Ok((*mine.get(tx), item, *n.get(tx)))
        });
        assert_eq!(read.map_err(Error::from), Ok(([8; 3], 5, 6)));
        let read = two.step((), |tx, mine, ()| {
            let Pair { n, item } = mine.get(tx);
            Ok((*n, item.as_ref().map_or(0, |i| *i.get(tx))))
        });
        assert_eq!(read.map_err(Error::from), Ok((2, 7)));
    }
    assert_eq!(new.audit().unwrap().unreachable, 0);
}

#[test]
fn roots_are_made_anew() {
    migrated::<InOrder32>();
    migrated::<InOrder16>();
}
