//! Threads that share a board and pass boxes over it.

use super::kit::{Buffered16, Lock, On, told};
use crate::turns::{deep, in_turn};
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{self, Contexts, Shared, Sharing, Width};
use nv_replay::{Config, Error, Held, Options, Outlet, PBox, Place, Thread, Threads, Update};
use powerfail::{Mapped, Summary, World, explore_with};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;

type Content = [u16; 3];

/// The root of a thread, or the shared one.
#[derive(Persist)]
#[repr(C)]
struct Holder<'p, W: Width> {
    /// Boxes that were put here.
    n: u32,
    /// Changes of the shared root: those by this thread, or all.
    changes: u32,
    item: Option<PBox<'p, Content, W>>,
}
impl<W: Width> Holder<'_, W> {
    fn empty<'p>() -> Holder<'p, W> {
        Holder {
            n: 0,
            changes: 0,
            item: None,
        }
    }
}

type Own<W> = Holder<'static, W>;
type Roots<W> = Sharing<(Own<W>,), Contexts<(Own<W>, Own<W>, Own<W>)>>;
type All<'m, M> = Threads<'m, Roots<<M as Model>::Unit>, M>;
type One<'c, 't, M> = Thread<'c, Own<<M as Model>::Unit>, M, Env<'t>>;
type Opened<'c, M> = Place<'c, Own<<M as Model>::Unit>, M>;
type Key<'c, M> = Shared<'c, Own<<M as Model>::Unit>, <M as Model>::Unit>;
type Handle<M> = Held<Content, <M as Model>::Unit>;

/// What the second thread has for all of its life: no content of a box.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Pen {
    strokes: u16,
    color: Color,
}
#[derive(Persist, Clone, Copy)]
#[repr(u32)]
enum Color {
    Blue = 0x626c_7565,
}

fn content(n: u32) -> Content {
    [n as u16, !n as u16, n as u16 ^ 0x55]
}

/// What is explored.
#[derive(Debug, Clone, Copy)]
struct Case {
    seq_bits: u8,
    /// Iterations of another program in each thread before the campaign. The program then begins
    /// with an update.
    before: u32,
    /// Boxes that the first thread makes.
    boxes: u32,
    /// Iterations of the first thread that lose two handles.
    lost: u32,
    /// The second thread has a handle in a record for all of its life.
    pen: bool,
    /// Boxes that the second thread tries to take.
    takes: u32,
    /// The second thread adds so many others, in the third place. The next one takes the place when
    /// the one before it has ended, and the region is opened again.
    added: u16,
}

/// The numbers of boxes that the world has seen: made, taken by the second and the third thread.
type Seen = [u32; 3];

/// What a thread knows of its boot.
#[derive(Clone, Copy)]
struct Env<'t> {
    wait: &'t dyn Fn(),
    /// Objects that a handle outside of the pool has owned in this boot.
    held: &'t Cell<usize>,
    world: &'t World<'t, Seen>,
}
impl Outlet for Env<'_> {}
impl<'t> Env<'t> {
    fn new(wait: &'t dyn Fn(), held: &'t Cell<usize>, world: &'t World<'t, Seen>) -> Self {
        Env { wait, held, world }
    }
    fn hold(&self) {
        self.held.set(self.held.get() + 1);
    }
    fn saw(&self, me: usize, n: u32) {
        self.world.update(|seen| seen[me] = seen[me].max(n));
    }
}

/// Makes boxes: each is a handle in a record first, and on the board in the next step.
fn make<M: Model>(
    rt: &mut One<'_, '_, M>,
    case: &Case,
    board: &Lock<Key<'_, M>>,
) -> Result<(), Error>
where
    M::Unit: Width,
{
    let env = *rt.env();
    for i in 0..case.boxes {
        let h = rt.step_own::<_, Handle<M>>(i, |tx, _, i| PBox::new(tx, content(i)))?;
        let n = {
            let key = &mut *board.lock(env.wait);
            rt.step((h, key), |tx, mine, (h, mut board)| {
                let n = mine.get(tx).n + 1;
                let board = board.get_mut(tx)?;
                if board.item.is_some() {
                    h.into_inner(tx)?;
                    return Ok(n - 1);
                }
                (board.n, board.changes) = (board.n + 1, board.changes + 1);
                board.item = Some(h);
                let mine = mine.get_mut(tx)?;
                (mine.n, mine.changes) = (n, mine.changes + 1);
                Ok(n)
            })?
        };
        env.saw(0, n);
    }
    // Each iteration loses two handles.
    rt.each(0..case.lost, |rt, i| {
        let _lost = rt.step_own::<_, (Handle<M>, Handle<M>)>(i, |tx, _, i| {
            Ok((PBox::new(tx, content(i))?, PBox::new(tx, content(i))?))
        })?;
        let env = rt.env();
        env.hold();
        env.hold();
        Ok(())
    })
}

/// Takes the box of the board, and frees the one that it had.
fn take<M: Model>(rt: &mut One<'_, '_, M>, board: &Lock<Key<'_, M>>, me: usize) -> Result<(), Error>
where
    M::Unit: Width,
{
    let env = *rt.env();
    let n = {
        let key = &mut *board.lock(env.wait);
        rt.step(key, |tx, mine, mut board| {
            let n = mine.get(tx).n;
            if board.get(tx).item.is_none() {
                return Ok(n);
            }
            let board = board.get_mut(tx)?;
            board.changes += 1;
            let taken = board.item.take();
            let mine = mine.get_mut(tx)?;
            (mine.n, mine.changes) = (n + 1, mine.changes + 1);
            if let Some(old) = core::mem::replace(&mut mine.item, taken) {
                old.into_inner(tx)?;
            }
            Ok(n + 1)
        })?
    };
    env.saw(me, n);
    Ok(())
}

/// The second thread: has a handle for all of its life, and takes boxes.
fn taker<M: Model>(
    rt: &mut One<'_, '_, M>,
    case: &Case,
    board: &Lock<Key<'_, M>>,
) -> Result<(), Error>
where
    M::Unit: Width,
{
    let pen = match case.pen {
        true => Some(rt.step_own::<_, Held<Pen, M::Unit>>((), |tx, _, ()| {
            let pen = Pen {
                strokes: 0,
                color: Color::Blue,
            };
            PBox::new(tx, pen)
        })?),
        false => None,
    };
    for _ in 0..case.takes {
        take(rt, board, 1)?;
    }
    if let Some(mut pen) = pen {
        rt.env().hold();
        rt.step(pen.lend(), |tx, _, mut pen| {
            pen.get_mut(tx)?.strokes += 1;
            Ok(())
        })?;
    }
    Ok(())
}

const BYTES: usize = 1536;

fn open<'m, M: Model>(region: Region<'m, M>, seq_bits: u8) -> All<'m, M>
where
    M::Unit: Width,
{
    let table = Config {
        bytes: 56,
        outbox_bytes: 0,
        seq_bits,
    };
    let pool = pmem_tx::Config {
        journal_entries: 8,
        journal_bytes: 64,
        seq_bits,
    };
    All::<M>::open(region, table, Some(pool), |_| {
        Ok((
            (Holder::empty(),),
            (Holder::empty(), Holder::empty(), Holder::empty()),
        ))
    })
    .unwrap_or_else(|r| panic!("open: {r}"))
}

fn start<'c, 't, M: Model>(place: Opened<'c, M>, version: u16, env: Env<'t>) -> One<'c, 't, M>
where
    M::Unit: Width,
{
    let options = Options {
        version,
        update: Update::StartOver,
        ..Options::default()
    };
    place.open_with(options, env).unwrap()
}

/// What a thread's root holds when all threads have ended: boxes, changes, whether it has a box.
type Found = (u32, u32, bool);

fn found<M: Model>(rt: &mut One<'_, '_, M>) -> Found
where
    M::Unit: Width,
{
    let found = rt.view(|tx, mine| {
        let mine = mine.get(tx);
        if let Some(b) = &mine.item {
            let b = b.get(tx);
            assert_eq!(*b, content(b[0].into()));
        }
        (mine.n, mine.changes, mine.item.is_some())
    });
    found.unwrap().expect("it has passed its records")
}

fn program<M: Model>(nv: Region<'_, M>, world: &World<'_, Seen>, case: &Case)
where
    M::Unit: Width,
{
    let mut region = nv;
    while let Some(after) = opening::<M>(region, world, case) {
        region = after;
    }
}

/// Runs the threads once. The region, if it must be opened again for the next thread to be added.
fn opening<'m, M: Model>(
    nv: Region<'m, M>,
    world: &World<'_, Seen>,
    case: &Case,
) -> Option<Region<'m, M>>
where
    M::Unit: Width,
{
    let held = Cell::new(0);
    let mut all = open::<M>(nv, case.seq_bits);
    let again = Cell::new(false);
    let states = {
        let ((one, two, three), (board,)) = all.share().unwrap();
        let board = &Lock::new(board);
        let states = RefCell::new([(0, 0, false); 3]);
        let (third, ended) = (Cell::new(Some(three)), Cell::new(false));
        world.threads(|t| {
            let (held, states, again) = (&held, &states, &again);
            let (third, ended) = (&third, &ended);
            t.spawn("maker", 0, move || {
                let wait = || t.yield_now();
                let mut rt = start(one, 0, Env::new(&wait, held, world));
                make(&mut rt, case, board).unwrap();
                states.borrow_mut()[0] = found(&mut rt);
            });
            t.spawn("taker", 0, move || {
                let wait = || t.yield_now();
                let mut rt = start(two, 0, Env::new(&wait, held, world));
                taker(&mut rt, case, board).unwrap();
                for version in 1..=case.added {
                    let last = version == case.added;
                    // Otherwise its end is recorded.
                    if last || rt.is_live() {
                        let Some(place) = third.take() else {
                            again.set(true);
                            break;
                        };
                        t.spawn("third", 0, move || {
                            let wait = || t.yield_now();
                            let mut rt = start(place, version, Env::new(&wait, held, world));
                            take(&mut rt, board, 2).unwrap();
                            states.borrow_mut()[2] = found(&mut rt);
                            ended.set(true);
                        });
                        while !last && !ended.get() {
                            wait();
                        }
                    }
                    if !last {
                        rt.step(version, |_, _, _| Ok(())).unwrap();
                    }
                }
                states.borrow_mut()[1] = found(&mut rt);
            });
        });
        states.into_inner()
    };
    if again.get() {
        return Some(all.close());
    }
    let audit = all.audit().unwrap();
    let [made, taken, last] = states;
    let on_board = made.0 - taken.0 - last.0;
    assert!(on_board <= 1, "{states:?}");
    let boxes = on_board as usize + usize::from(taken.2) + usize::from(last.2);
    assert_eq!(audit.unreachable, held.get(), "{states:?} {audit:?}");
    assert_eq!(audit.blocks, 4 + held.get() + boxes, "{states:?} {audit:?}");
    for (n, seen) in states.into_iter().zip(world.get()) {
        assert!(n.0 >= seen, "{states:?}, {:?} seen", world.get());
    }
    None
}

/// A formatted region.
fn image<M: Model>(case: &Case) -> Vec<u8>
where
    M::Unit: Width,
{
    let mut words = vec![MaybeUninit::new(0u64); BYTES / 8];
    let mut all = open::<M>(Region::new(&mut words), case.seq_bits);
    let ((one, two, three), _) = all.share().unwrap();
    if case.before > 0 {
        for place in [one, two, three] {
            let old = Options {
                version: 9,
                ..Options::default()
            };
            let mut rt = place.open(old).unwrap();
            rt.each(0..case.before, |_, _| Ok(())).unwrap();
        }
    }
    let _ = all.close();
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
    .name(&format!("boxes {} {case:?}", M::NAME))
    .limit(24)
    .depth(depth)
    .max_depth(depth)
    .preemptions(1)
    .run()
}

/// A box that changes hands.
const PASS: Case = Case {
    seq_bits: 4,
    before: 0,
    boxes: 1,
    lost: 0,
    pen: false,
    takes: 1,
    added: 0,
};
/// Objects that only records own, and some that nobody owns.
const OWN: Case = Case {
    lost: 1,
    pen: true,
    ..PASS
};
/// The third thread takes what the second one leaves.
const THREE: Case = Case { added: 1, ..PASS };
/// It ends, and another one takes its place.
const ENDED: Case = Case {
    added: 2,
    takes: 0,
    boxes: 2,
    ..PASS
};

impl Case {
    /// The same program after another one, at the end of a round of numbers of so many bits.
    const fn after(self, seq_bits: u8) -> Self {
        Case {
            seq_bits,
            before: (1 << seq_bits) - 4,
            ..self
        }
    }
}

/// Two of the four media are cut twice in each run; here and with three threads half a million cuts
/// are left at least.
#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn a_box_changes_hands_between_two() {
    let all = [
        campaign::<On<InOrder32>>(PASS, in_turn(0, 2)),
        campaign::<On<InOrder16>>(PASS, in_turn(1, 2)),
        campaign::<On<Buffered32>>(PASS, in_turn(1, 2)),
        campaign::<On<Buffered16>>(PASS, in_turn(0, 2)),
    ];
    told("two", 500_000, &all);
}

#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn and_a_third_is_added() {
    let all = [
        campaign::<On<InOrder32>>(THREE, in_turn(1, 2)),
        campaign::<On<InOrder16>>(THREE, in_turn(0, 2)),
        campaign::<On<Buffered32>>(THREE, in_turn(0, 2)),
        campaign::<On<Buffered16>>(THREE, in_turn(1, 2)),
        campaign::<On<InOrder32>>(Case { boxes: 2, ..THREE }, deep()),
    ];
    told("three", 500_000, &all);
}

/// Numbers of 4 to 6 bits, which wrap.
#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn numbers_come_round_again() {
    let all = [
        campaign::<On<InOrder32>>(PASS.after(4), in_turn(0, 5)),
        campaign::<On<Buffered16>>(PASS.after(4), in_turn(1, 5)),
        campaign::<On<Buffered32>>(THREE.after(5), in_turn(2, 5)),
        campaign::<On<InOrder16>>(THREE.after(6), in_turn(3, 5)),
        campaign::<On<Buffered16>>(THREE.after(6), in_turn(4, 5)),
    ];
    told("narrow", 10_000, &all);
}

#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn the_place_of_an_ended_thread_is_used_again() {
    let all = [
        campaign::<On<InOrder32>>(ENDED, in_turn(0, 4)),
        campaign::<On<InOrder16>>(ENDED, in_turn(1, 4)),
        campaign::<On<Buffered32>>(ENDED, in_turn(2, 4)),
        campaign::<On<Buffered16>>(ENDED, in_turn(3, 4)),
    ];
    told("ended", 10_000, &all);
}

#[test]
#[cfg_attr(miri, ignore = "reads a region of values as bytes")]
fn what_only_records_own_is_adopted_and_the_rest_reclaimed() {
    told("own", 4_000, &[campaign::<On<InOrder32>>(OWN, 1)]);
}
