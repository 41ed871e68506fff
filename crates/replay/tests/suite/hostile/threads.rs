//! Two threads that share a pool, and the next version of their program: images of them, also of a
//! migration that was cut, and what is tried with any bytes.
//!
//! The fuzz target `open_threads` uses this file, too.

use nv_replay::nvmem::superblock::{self, State, Superblock};
use nv_replay::nvmem::{Model, Persist, Region, Unit};
use nv_replay::pmem_tx::{self, Contexts, Shared, Sharing, Width};
use nv_replay::{
    Config, Error, Held, Message, NotNow, OpenError, OpenFailure, Options, Outlet, PBox, Port,
    Thread, Threads, inspect,
};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Bytes of a region.
pub const BYTES: usize = 2048;
/// The parameter that holds the number of a migration.
pub const MIGRATED: usize = 6;

pub type Words = Vec<MaybeUninit<u64>>;

pub static PORT: Port<u16> = Port::new(1);

/// Reads each message.
#[derive(Default)]
pub struct Sink(usize);
impl Outlet for Sink {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        self.0 += m.bytes.iter().map(|b| usize::from(*b)).sum::<usize>();
        Ok(())
    }
}

/// A root of the old program: the first thread's, and the shared one.
#[derive(Persist)]
#[repr(C)]
pub struct Top<'p, U: Width> {
    pub n: u32,
    pub on: bool,
    pub child: Option<PBox<'p, u64, U>>,
}
/// The first thread's root in the next version.
#[derive(Persist)]
#[repr(C)]
pub struct Next<'p, U: Width> {
    child: Option<PBox<'p, u64, U>>,
    n: [u32; 2],
    on: bool,
}
impl<U: Width> Top<'_, U> {
    pub fn empty<'p>() -> Top<'p, U> {
        Top {
            n: 0,
            on: false,
            child: None,
        }
    }
}

pub type Two<U> = Sharing<(Top<'static, U>,), Contexts<(Top<'static, U>, u32)>>;
pub type NextTwo<U> = Sharing<(Top<'static, U>,), Contexts<(Next<'static, U>, u64)>>;
type Key<'c, M> = Shared<'c, Top<'static, <M as Model>::Unit>, <M as Model>::Unit>;
type Opened<'m, T, M> = Result<Threads<'m, T, M>, OpenFailure<'m, M>>;

const TABLE: Config = Config {
    bytes: 144,
    outbox_bytes: 8,
    seq_bits: 5,
};
const POOL: Option<pmem_tx::Config> = Some(pmem_tx::Config {
    journal_entries: 6,
    journal_bytes: 64,
    seq_bits: 16,
});

fn sending(outlet: &mut Sink) -> Options<'_> {
    Options {
        outlet: Some(outlet),
        ..Options::default()
    }
}

/// Opens the region of the old program.
pub fn open<M: Model>(region: Region<'_, M>) -> Opened<'_, Two<M::Unit>, M>
where
    M::Unit: Width,
{
    Threads::open(region, TABLE, POOL, |_| {
        Ok(((Top::empty(),), (Top::empty(), 0)))
    })
}

/// Opens a region with the next version, and migrates it if it is the old program's.
pub fn migrate<M: Model>(region: Region<'_, M>) -> Opened<'_, NextTwo<M::Unit>, M>
where
    M::Unit: Width,
{
    Threads::migrate::<Two<M::Unit>, _, _>(
        region,
        TABLE,
        POOL,
        |_| {
            let first = Next {
                child: None,
                n: [0; 2],
                on: false,
            };
            Ok(((Top::empty(),), (first, 0)))
        },
        |tx, ((shared,), (a, b))| {
            let Top { n, on, child } = a;
            // An object moves, too.
            let child = match child {
                Some(child) => child.into_inner(tx)?,
                None => 1,
            };
            let child = Some(PBox::new(tx, child)?);
            let n = [n, b];
            Ok(((shared,), (Next { child, n, on }, u64::from(b) << 32)))
        },
    )
}

/// The first thread has two handles in records, and puts one into the shared root.
fn giver<M: Model>(
    rt: &mut Thread<'_, Top<'static, M::Unit>, M>,
    key: &mut Key<'_, M>,
    until: u32,
) -> Result<(), Error>
where
    M::Unit: Width,
{
    type Two<U> = (Held<u64, U>, Held<u64, U>);
    let (a, mut b) =
        rt.step_own::<_, Two<M::Unit>>((), |tx, _, ()| Ok((PBox::new(tx, 5)?, PBox::new(tx, 6)?)))?;
    if until == 0 {
        return Ok(());
    }
    rt.step((&mut *key, a), |tx, mine, (mut shared, a)| {
        let mine = mine.get_mut(tx)?;
        mine.n = mine.n.wrapping_add(1);
        if let Some(old) = shared.get_mut(tx)?.child.replace(a) {
            old.into_inner(tx)?;
        }
        Ok(())
    })?;
    rt.each_with(0..3, (until, &mut b), |rt, i, (until, mut b)| {
        if i == until {
            return Err(Error::Other);
        }
        rt.step((b.lend(), i), |tx, _, (mut b, i)| {
            let b = b.get_mut(tx)?;
            *b = b.wrapping_add(u64::from(i));
            tx.send(&PORT, i as u16)
        })?;
        Ok(())
    })
}

/// The second thread takes what is in the shared root.
fn receiver<M: Model>(rt: &mut Thread<'_, u32, M>, key: &mut Key<'_, M>) -> Result<(), Error>
where
    M::Unit: Width,
{
    let h = rt.step_own::<_, Held<u64, M::Unit>>(key, |tx, n, mut shared| {
        let n = n.get_mut(tx)?;
        *n = n.wrapping_add(1);
        match shared.get_mut(tx)?.child.take() {
            Some(child) => Ok(child),
            None => PBox::new(tx, 1),
        }
    })?;
    rt.step(h, |tx, _, h| h.into_inner(tx))?;
    Ok(())
}

/// Both threads of the old program.
fn run<M: Model>(all: &mut Threads<'_, Two<M::Unit>, M>, until: u32)
where
    M::Unit: Width,
{
    let Ok(((one, two), (mut key,))) = all.share() else {
        return;
    };
    let (mut sink, mut other) = (Sink::default(), Sink::default());
    let (one, two) = (one.open(sending(&mut sink)), two.open(sending(&mut other)));
    let first = one.map(|mut rt| giver(&mut rt, &mut key, until));
    if until > 1 {
        let _ = two.map(|mut rt| receiver(&mut rt, &mut key));
    }
    let _ = first;
}

/// Both threads of the next version.
fn run_next<M: Model>(all: &mut Threads<'_, NextTwo<M::Unit>, M>)
where
    M::Unit: Width,
{
    let Ok(((one, two), (mut key,))) = all.share() else {
        return;
    };
    let (mut sink, mut other) = (Sink::default(), Sink::default());
    let (one, two) = (one.open(sending(&mut sink)), two.open(sending(&mut other)));
    let _ = one.map(|mut rt| {
        rt.step(&mut key, |tx, mine, mut shared| {
            let mine = mine.get_mut(tx)?;
            let shared = shared.get_mut(tx)?;
            core::mem::swap(&mut mine.child, &mut shared.child);
            mine.n[1] = mine.n[1].wrapping_add(1);
            tx.send(&PORT, 9)
        })
        .map_err(Error::from)
    });
    let _ = two.map(|mut rt| rt.step((), |tx, n, ()| Ok(*n.get(tx))).map_err(Error::from));
}

/// What the next version finds in its own roots and in the shared one: the first thread's numbers,
/// its object's value, the shared root's number, the second thread's number.
pub type Found = ([u32; 2], u64, u32, u64);

/// Reads the roots of the next version, in steps of both threads.
pub fn found<M: Model>(all: &mut Threads<'_, NextTwo<M::Unit>, M>) -> Result<Found, Error>
where
    M::Unit: Width,
{
    let ((one, two), (mut key,)) = all.share().map_err(|_| Error::Other)?;
    let mut one = one.open(Options::default()).map_err(|_| Error::Other)?;
    let mut two = two.open(Options::default()).map_err(|_| Error::Other)?;
    let (n, child, shared) = one
        .step(&mut key, |tx, mine, shared| {
            let mine = mine.get(tx);
            let child = mine.child.as_ref().map_or(0, |c| *c.get(tx));
            Ok((mine.n, child, shared.get(tx).n))
        })
        .map_err(Error::from)?;
    let other = two.step((), |tx, n, ()| Ok(*n.get(tx)))?;
    Ok((n, child, shared, other))
}

/// A buffer with this image.
pub fn words(image: &[u8]) -> Words {
    let mut words = vec![MaybeUninit::new(0u64); image.len().div_ceil(8)];
    for (to, from) in words.iter_mut().zip(image.chunks(8)) {
        let mut word = [0; 8];
        word[..from.len()].copy_from_slice(from);
        *to = MaybeUninit::new(u64::from_ne_bytes(word));
    }
    words
}

/// The image in a buffer.
pub fn bytes(words: &Words) -> Vec<u8> {
    // SAFETY: `words` has initialised it, and whole units were stored.
    let words = words.iter().map(|w| unsafe { w.assume_init() });
    words.flat_map(u64::to_ne_bytes).collect()
}

/// An image after the old program: until it has its handles, has given one away, has done a part of
/// its loop, or is at its end.
pub fn image<M: Model>(until: u32) -> Vec<u8>
where
    M::Unit: Width,
{
    let mut memory = words(&[0; BYTES]);
    let all = open::<M>(Region::new(&mut memory));
    let mut all = all.unwrap_or_else(|r| panic!("a blank region is formatted: {r}"));
    run(&mut all, until);
    let _ = all.close();
    bytes(&memory)
}

fn sound<T: nv_replay::ThreadRoots, M: Model>(all: &mut Threads<'_, T, M>)
where
    M::Unit: Width,
{
    all.audit().expect("what was opened is sound");
}

/// What a region that was opened may say when it is opened again. The first open does not read the
/// old entries of a journal. If one is damaged, or the tables have lost a record, its number comes
/// into doubt when the program runs: the next open finds the entry damaged, or undoes it and finds
/// what it has restored wrong.
fn assert_old_entry<M: Model>(refused: &OpenFailure<'_, M>) {
    use pmem_tx::OpenError::*;
    assert!(
        matches!(refused.error, OpenError::Pool(Damaged(_) | Invalid(_))),
        "opened once: {refused}"
    );
}

/// Inspects any bytes, opens them with the old program, runs it and opens them again. Whether they
/// were opened.
pub fn attack<M: Model>(image: &mut Words, until: u32) -> bool
where
    M::Unit: Width,
{
    let region = Region::<M>::new(image);
    let _ = inspect(&region, &mut |_| {});
    let Ok(mut all) = open(region) else {
        return false;
    };
    run(&mut all, until);
    match open(all.close()) {
        Ok(mut all) => sound(&mut all),
        Err(refused) => assert_old_entry(&refused),
    }
    true
}

/// Opens any bytes with the next version, which migrates them if they are the old program's, runs
/// it, and opens them again. Whether they were opened.
pub fn attack_migrating<M: Model>(image: &mut Words) -> bool
where
    M::Unit: Width,
{
    let Ok(mut all) = migrate(Region::<M>::new(image)) else {
        return false;
    };
    run_next(&mut all);
    match migrate(all.close()) {
        Ok(mut all) => sound(&mut all),
        Err(refused) => assert_old_entry(&refused),
    }
    true
}

/// The superblock that counts.
pub fn superblock_of<M: Model>(region: &Region<'_, M>) -> Option<Superblock> {
    let expected = Superblock {
        kind: *b"RPLY",
        version: 7,
        fingerprint: 0,
        params: [0; 8],
    };
    match superblock::probe(region, &expected) {
        State::Ready(sb) => Some(sb),
        _ => None,
    }
}

/// The number of a migration that is not finished; 0 if there is none.
pub fn mark<M: Model>(image: &[u8]) -> u32 {
    let mut memory = words(image);
    superblock_of(&Region::<M>::new(&mut memory)).map_or(0, |sb| sb.params[MIGRATED])
}

/// A core that keeps an image of its memory at each fence, as a power cut there would leave it.
struct Watched<M>(PhantomData<M>);
std::thread_local! {
    static WATCHED: RefCell<Option<Watching>> = const { RefCell::new(None) };
}
struct Watching {
    memory: *const u8,
    images: Vec<Vec<u8>>,
}
// SAFETY: it reads memory, and nothing else.
unsafe impl<M: Model> Model for Watched<M> {
    type Unit = M::Unit;
    const BUFFERED: bool = true;
    const NAME: &'static str = if M::Unit::BYTES == 2 {
        "watched-16"
    } else {
        "watched-32"
    };
    fn fence() {
        WATCHED.with_borrow_mut(|w| {
            if let Some(w) = w {
                // SAFETY: `cut_migrations` has set it: `BYTES` bytes, which no `&mut` covers, as
                // a fence ends every loan.
                let now = unsafe { core::slice::from_raw_parts(w.memory, BYTES) };
                w.images.push(now.to_vec());
            }
        })
    }
}

/// Images of one migration that was cut behind its commit, in order: the superblock names the new
/// types and the migration's number.
pub fn cut_migrations<M: Model>() -> Vec<Vec<u8>>
where
    M::Unit: Width,
{
    let mut memory = words(&image::<M>(9));
    let start: *mut u8 = memory.as_mut_ptr().cast();
    WATCHED.set(Some(Watching {
        memory: start,
        images: Vec::new(),
    }));
    // SAFETY: the buffer's memory, which stays, and is used by this region alone.
    let region = unsafe { Region::<Watched<M>>::from_raw(start, start.add(BYTES)) };
    let done = migrate(region.expect("aligned")).map(drop);
    let watching = WATCHED.take().expect("set above");
    if let Err(refused) = done {
        panic!("a sound region is migrated: {refused}");
    }
    drop(memory);
    let mut images = watching.images;
    images.retain(|i| mark::<M>(i) != 0);
    images.dedup();
    images
}
