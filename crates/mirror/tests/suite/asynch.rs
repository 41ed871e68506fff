//! The async form: the same bytes as the blocking form, and futures that are dropped at any point.

use crate::support::MEMORY;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use nv_mirror::{Config, Mirror, asynch};
use nvmem::at_rest::{AtRest, RestingRegion};
use nvmem::device::{AsyncMedium, Contract, Medium};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{InOrder32, Ram, Region};

const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};

/// A medium whose operations each wait before they begin, after half of a write, and after their
/// end: a future may be dropped although the medium has done all of it.
#[derive(Clone)]
pub struct Slow<D>(pub D);

async fn wait_once() {
    let mut waited = false;
    core::future::poll_fn(|_| {
        if core::mem::replace(&mut waited, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await
}

impl<D: Medium> AsyncMedium for Slow<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        wait_once().await;
        self.0.read(at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        wait_once().await;
        let word = D::CONTRACT.write_size as usize;
        let (first, second) = bytes.split_at(bytes.len() / 2 / word * word);
        self.0.write(at, first)?;
        wait_once().await;
        self.0.write(at + first.len() as u32, second)?;
        wait_once().await;
        Ok(())
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        wait_once().await;
        self.0.erase(from, to)?;
        wait_once().await;
        Ok(())
    }
    async fn flush(&mut self) -> Result<(), D::Error> {
        wait_once().await;
        self.0.flush()?;
        wait_once().await;
        Ok(())
    }
}

/// Polls at most so often, then drops the future.
fn polled<T>(future: impl Future<Output = T>, most: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..most {
        if let Poll::Ready(t) = future.as_mut().poll(&mut context) {
            return Some(t);
        }
    }
    None
}

pub fn done<T>(future: impl Future<Output = T>) -> T {
    polled(future, 100_000).expect("it ends")
}

fn set(region: &mut Region<'_, Ram>, word: usize, value: u32) {
    // SAFETY: invariant "Inside the region": a word of the region, and no reference to it exists.
    unsafe { region.store(word * 4, value) }
}

fn get(region: &Region<'_, Ram>, word: usize) -> u32 {
    // SAFETY: invariant "Inside the region": a word of the region, which is initialised.
    unsafe { region.load(word * 4) }
}

/// Two boots of some saves.
fn blocking<D: Medium>(nv: &mut D) {
    for boot in 1..3 {
        let all = 0..nv.capacity();
        let mut memory = MEMORY;
        let (mut mirror, mut region) = Mirror::open(&mut *nv, all, &THREE, &mut memory).unwrap();
        for n in 0..70 {
            set(&mut region, n, boot * 1000 + n as u32);
            mirror.durable(&mut region).unwrap();
        }
    }
}

fn waiting<D: Medium>(nv: &mut Slow<D>) {
    for boot in 1..3 {
        let all = 0..nv.0.capacity();
        let mut memory = MEMORY;
        let open = asynch::Mirror::open(&mut *nv, all, &THREE, &mut memory);
        let (mut mirror, mut region) = done(open).unwrap();
        for n in 0..70 {
            set(&mut region, n, boot * 1000 + n as u32);
            done(mirror.durable(&mut region)).unwrap();
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of saves")]
fn both_forms_write_the_same_bytes() {
    let (mut a, mut b) = (RamFram::<3072>::filled(0), Slow(RamFram::<3072>::filled(0)));
    blocking(&mut a);
    waiting(&mut b);
    assert_eq!(a.bytes(), b.0.bytes());
    let (mut a, mut b) = (
        RamNor::<3, 1024, 4>::new(),
        Slow(RamNor::<3, 1024, 4>::new()),
    );
    blocking(&mut a);
    waiting(&mut b);
    assert_eq!(a.bytes(), b.0.bytes());
}

/// A range of other data is formatted, by a future that is dropped after each number of polls, and
/// by the one after it.
fn formats<D: Medium<Error: PartialEq> + Clone>(other: D, bytes: fn(&D) -> &[u8]) {
    let mut blocking = other.clone();
    let all = 0..other.capacity();
    let mut memory = MEMORY;
    Mirror::open_or_format::<InOrder32>(&mut blocking, all.clone(), &THREE, &mut memory).unwrap();
    for most in 0.. {
        let mut nv = Slow(other.clone());
        let first =
            asynch::Mirror::open_or_format::<InOrder32>(&mut nv, all.clone(), &THREE, &mut memory);
        let ended = polled(first, most).is_some();
        let again = asynch::Mirror::open_or_format(&mut nv, all.clone(), &THREE, &mut memory);
        let (mut mirror, mut region) = done(again).unwrap();
        if ended {
            assert_eq!(bytes(&mirror.medium_mut().0), bytes(&blocking));
        }
        both(&mut region, 1);
        done(mirror.durable(&mut region)).unwrap();
        assert_eq!(found(mirror.medium_mut().0.clone()), 1);
        if ended {
            assert!(most > 3);
            break;
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of formats")]
fn a_dropped_format_is_a_cut() {
    formats(RamFram::<3072>::filled(7), |nv| nv.bytes());
    let mut flash = RamNor::<3, 1024, 4>::new();
    flash.bytes_mut().fill(7);
    formats(flash, |nv| nv.bytes());
}

/// Word 0 of what the next boot finds.
fn found<D: Medium>(mut nv: D) -> u32 {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let (_, region) = Mirror::open::<InOrder32>(&mut nv, all, &THREE, &mut memory).unwrap();
    let n = get(&region, 0);
    // Saved together.
    assert_eq!(get(&region, 90), n);
    n
}

/// Words that are saved together.
fn both(region: &mut Region<'_, Ram>, n: u32) {
    set(region, 0, n);
    set(region, 90, n);
}

/// Saves once, and then until the next save finds no room if it says so. Returns how often.
fn fill<D: AsyncMedium<Error: core::fmt::Debug>>(
    mirror: &mut asynch::Mirror<'_, &mut D>,
    region: &mut Region<'_, Ram>,
    full: bool,
) -> u32 {
    // Two runs of a word, the end and the check.
    let record = 24u32.next_multiple_of(D::CONTRACT.write_size);
    let mut n = 0;
    while n == 0 || full && mirror.room() >= record {
        n += 1;
        both(region, n);
        done(mirror.durable(region)).unwrap();
    }
    n
}

/// A save is dropped after each number of polls.
fn dropped<D: Medium + Clone>(blank: D) {
    let mut ended = 0;
    for most in 0..200 {
        // The save that is dropped appends a record, or begins a segment.
        for full in [false, true] {
            let mut nv = Slow(blank.clone());
            let all = 0..nv.0.capacity();
            let mut memory = MEMORY;
            let open = asynch::Mirror::open(&mut nv, all, &THREE, &mut memory);
            let (mut mirror, mut region) = done(open).unwrap();
            let before = fill(&mut mirror, &mut region, full);
            both(&mut region, before + 1);
            let whole = polled(mirror.durable(&mut region), most).is_some();
            ended += u32::from(whole);
            let next = found(mirror.medium_mut().0.clone());
            assert!(next == before + 1 || !whole && next == before, "{next}");
            // The mirror goes on.
            both(&mut region, before + 2);
            done(mirror.durable(&mut region)).unwrap();
            assert_eq!(found(mirror.medium_mut().0.clone()), before + 2);
        }
    }
    assert!(ended > 100, "{ended}");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of saves")]
fn a_dropped_save_is_a_cut() {
    dropped(RamFram::<3072>::filled(0));
    dropped(RamNor::<3, 1024, 4>::new());
}

/// A save is dropped after each number of polls, and then the next save of the same boot is.
fn dropped_twice<D: Medium + Clone>(blank: D) {
    // The first one that is dropped begins the range, appends a record, or finds no room.
    for (begun, full) in [(false, false), (true, false), (true, true)] {
        let mut ended = 0;
        'first: for first in 0.. {
            for second in 0.. {
                let mut nv = Slow(blank.clone());
                let all = 0..nv.0.capacity();
                let mut memory = MEMORY;
                let open = asynch::Mirror::open(&mut nv, all, &THREE, &mut memory);
                let (mut mirror, mut region) = done(open).unwrap();
                let before = match begun {
                    true => fill(&mut mirror, &mut region, full),
                    false => 0,
                };
                both(&mut region, before + 1);
                if polled(mirror.durable(&mut region), first).is_some() {
                    break 'first;
                }
                both(&mut region, before + 2);
                let whole = polled(mirror.durable(&mut region), second).is_some();
                let next = found(mirror.medium_mut().0.clone());
                let least = if whole { before + 2 } else { before };
                assert!((least..=before + 2).contains(&next), "{next}");
                if whole {
                    ended += 1;
                    break;
                }
            }
        }
        assert!(ended > 4, "{ended}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of saves")]
fn two_dropped_saves_are_a_cut() {
    dropped_twice(RamFram::<3072>::filled(0));
    dropped_twice(RamFram::<3072>::filled(0xFF));
    dropped_twice(RamMram::<3072>::filled(0));
    dropped_twice(RamNor::<3, 1024, 4>::new());
}

/// An owner that another task changes while a save waits.
struct Changing<'m>(*mut u8, usize, core::marker::PhantomData<Region<'m, Ram>>);
// SAFETY: nothing is under way in the region whenever a save looks at it: the test stores between
// two polls.
unsafe impl AtRest for Changing<'_> {
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        f(RestingRegion {
            base: self.0,
            len: self.1,
            scratch: 0..0,
        })
    }
}

/// What is committed while a save waits is not in it, and the next save has it.
#[test]
fn a_change_while_a_save_waits() {
    for polls in 1..40 {
        let mut nv = Slow(RamMram::<4096>::filled(0));
        let all = 0..4096;
        let mut memory = MEMORY;
        let open = asynch::Mirror::open(&mut nv, all.clone(), &THREE, &mut memory);
        let (mut mirror, mut region) = done(open).unwrap();
        let mut owner = Changing(region.base(), region.len(), core::marker::PhantomData);
        set(&mut region, 3, 1);
        done(mirror.durable(&mut owner)).unwrap();
        set(&mut region, 3, 2);
        set(&mut region, 9, 2);
        {
            let mut save = pin!(mirror.durable(&mut owner));
            let mut context = Context::from_waker(Waker::noop());
            let mut ready = false;
            for _ in 0..polls {
                ready = ready || save.as_mut().poll(&mut context).is_ready();
            }
            set(&mut region, 3, 3);
            set(&mut region, 9, 3);
            if !ready {
                done(save).unwrap();
            }
        }
        // One instant: both words are those of the save.
        let mut then = MEMORY;
        let mut copy = Slow(nv_copy(mirror.medium_mut()));
        let (_, found) = done(asynch::Mirror::open(
            &mut copy,
            all.clone(),
            &THREE,
            &mut then,
        ))
        .unwrap();
        assert_eq!((get(&found, 3), get(&found, 9)), (2, 2), "{polls}");
        done(mirror.durable(&mut owner)).unwrap();
        let mut later = MEMORY;
        let mut copy = Slow(nv_copy(mirror.medium_mut()));
        let (_, found) = done(asynch::Mirror::open(&mut copy, all, &THREE, &mut later)).unwrap();
        assert_eq!((get(&found, 3), get(&found, 9)), (3, 3), "{polls}");
    }
}

fn nv_copy(nv: &mut &mut Slow<RamMram<4096>>) -> RamMram<4096> {
    nv.0.clone()
}
