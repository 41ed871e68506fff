//! The record and wear levelling on async media. Futures are dropped at every point where they
//! wait, in the middle of a word too; then the same object goes on, or another one is opened.

use crate::support::{Promise, Tiny, TinyMultiwrite};
use crate::turns::in_turn;
use core::future::Future;
use nvmem::asynch::{Record, WearLevelled};
use nvmem::device::{AsyncMedium, Contract, Medium, Torn};
use nvmem::level::LevelError;
use nvmem::ram::{RamFram, RamMram, RamNor};
use powerfail::{Chip, Simulated, SpiFram, World, explore};
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future at most `polls` times, then drops it.
fn poll_times<R>(future: impl Future<Output = R>, polls: u32) -> Option<R> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(r) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return Some(r);
        }
    }
    None
}

fn block_on<R>(future: impl Future<Output = R>) -> R {
    poll_times(future, u32::MAX).expect("it ends")
}

/// Returns `Pending` once.
async fn wait() {
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

fn next(random: &mut u32) -> u32 {
    *random = random.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
    *random >> 8
}

/// Waits up to three times, or not at all.
async fn wait_at_random(random: &mut u32) {
    for _ in 0..next(random) % 4 {
        wait().await;
    }
}

/// A blocking medium whose operations wait at random before and after they are done.
struct Slow<D> {
    medium: D,
    random: u32,
}

impl<D> Slow<D> {
    fn new(medium: D) -> Self {
        Slow { medium, random: 7 }
    }
}

impl<D: Medium> AsyncMedium for Slow<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        wait_at_random(&mut self.random).await;
        self.medium.read(at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        wait_at_random(&mut self.random).await;
        self.medium.write(at, bytes)?;
        wait_at_random(&mut self.random).await;
        Ok(())
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        wait_at_random(&mut self.random).await;
        self.medium.erase(from, to)?;
        wait_at_random(&mut self.random).await;
        Ok(())
    }
    async fn flush(&mut self) -> Result<(), D::Error> {
        wait_at_random(&mut self.random).await;
        self.medium.flush()
    }
}

/// A flash, or with `ERASE` 0 a FRAM, that writes word by word and waits once in the middle of
/// each. A future that is dropped there leaves what [`Contract::torn`] permits: on flash a word, or
/// all words of an erase unit, that read differently each time, until they are erased or killed.
struct Tearing<const ERASE: u32, const ONCE: bool> {
    bytes: Vec<u8>,
    /// Words that read as any mixture of the bits of both values.
    unstable: BTreeMap<u32, ([u8; 4], [u8; 4])>,
    random: u32,
    torn: u32,
}

const WORD: u32 = 4;

impl<const ERASE: u32, const ONCE: bool> Tearing<ERASE, ONCE> {
    fn new(size: usize) -> Self {
        Tearing {
            bytes: vec![0xFF; size],
            unstable: BTreeMap::new(),
            random: 1,
            torn: 0,
        }
    }

    fn word(&self, at: u32) -> [u8; 4] {
        self.bytes[at as usize..][..4].try_into().unwrap()
    }

    fn set_word(&mut self, at: u32, word: [u8; 4]) {
        self.unstable.remove(&at);
        self.bytes[at as usize..][..4].copy_from_slice(&word);
    }

    /// Waits in the middle of giving a word this value.
    async fn change(&mut self, at: u32, new: [u8; 4]) {
        let old = self.word(at);
        let mut cut = Cut {
            medium: self,
            at,
            old,
            new,
            done: false,
        };
        wait().await;
        cut.done = true;
    }
}

/// A change of a word: complete, or torn if it is dropped before it is `done`.
struct Cut<'m, const ERASE: u32, const ONCE: bool> {
    medium: &'m mut Tearing<ERASE, ONCE>,
    at: u32,
    old: [u8; 4],
    new: [u8; 4],
    done: bool,
}

impl<const ERASE: u32, const ONCE: bool> Drop for Cut<'_, ERASE, ONCE> {
    fn drop(&mut self) {
        let m = &mut *self.medium;
        if self.done {
            m.set_word(self.at, self.new);
        } else if ERASE == 0 {
            // In order, byte by byte.
            let n = next(&mut m.random) as usize % 5;
            m.bytes[self.at as usize..][..n].copy_from_slice(&self.new[..n]);
        } else {
            m.torn += 1;
            m.unstable.insert(self.at, (self.old, self.new));
        }
    }
}

impl<const ERASE: u32, const ONCE: bool> AsyncMedium for Tearing<ERASE, ONCE> {
    type Error = &'static str;
    const CONTRACT: Contract = if ERASE == 0 {
        Contract {
            torn: Torn::Prefix,
            ..<RamFram<0> as Medium>::CONTRACT
        }
    } else {
        let flash = <RamNor<1, 128, 4, 0xFF, ONCE> as Medium>::CONTRACT;
        let Some(erase) = flash.erase else {
            panic!("flash")
        };
        Contract {
            erase: Some(nvmem::device::EraseUnit {
                size: ERASE,
                ..erase
            }),
            ..flash
        }
    };

    fn capacity(&self) -> u32 {
        self.bytes.len() as u32
    }

    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), &'static str> {
        wait().await;
        for (i, to) in (at..).zip(&mut *buf) {
            *to = self.bytes[i as usize];
            if let Some((old, new)) = self.unstable.get(&(i / WORD * WORD)) {
                let k = (i % WORD) as usize;
                // Often all of one value, so that torn slots read as complete.
                let old_bits = match next(&mut self.random) % 4 {
                    0 => 0x00,
                    1 => next(&mut self.random) as u8,
                    _ if self.torn.is_multiple_of(2) => 0x00,
                    _ => 0xFF,
                };
                *to = old[k] & old_bits | new[k] & !old_bits;
            }
        }
        Ok(())
    }

    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), &'static str> {
        if ERASE == 0 {
            for (at, b) in (at as usize..).zip(bytes) {
                wait().await;
                self.bytes[at] = *b;
            }
            return Ok(());
        }
        for (i, word) in bytes.chunks(WORD as usize).enumerate() {
            let at = at + WORD * i as u32;
            let new: [u8; 4] = word.try_into().map_err(|_| "misaligned")?;
            let blank = self.word(at) == [0xFF; 4] && !self.unstable.contains_key(&at);
            if !blank && (ONCE || new != [0; 4]) {
                return Err("a word is written twice");
            }
            self.change(at, new).await;
        }
        Ok(())
    }

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), &'static str> {
        for at in (from..to).step_by(if ERASE == 0 { 1 } else { ERASE as usize }) {
            if ERASE == 0 {
                continue;
            }
            let words = (at..at + ERASE).step_by(WORD as usize);
            for word in words.clone() {
                let old = self.word(word);
                self.unstable.insert(word, (old, [0xFF; 4]));
            }
            self.torn += 1;
            wait().await;
            for word in words {
                self.set_word(word, [0xFF; 4]);
            }
        }
        Ok(())
    }
}

type Fram = Tearing<0, false>;
type WriteOnce = Tearing<128, true>;
type Multiwrite = Tearing<128, false>;
type WideMultiwrite = Tearing<256, false>;

// The record.

type Value = [u32; 2];

fn value(n: u32) -> Value {
    [n, !n]
}

/// Sets the value of a record, with every possible number of polls. Returns how many there were.
fn dropped_at_each_point<D: AsyncMedium>(blank: impl Fn() -> D, size: u32, before: u32) -> u32 {
    for polls in 0.. {
        for go_on in [false, true] {
            let mut medium = blank();
            let mut r = block_on(Record::open(&mut medium, 0..size, value(0))).unwrap();
            for n in 1..=before {
                block_on(r.set(value(n))).unwrap();
            }
            let done = poll_times(r.set(value(before + 1)), polls);
            let mut n = before + u32::from(done.is_some());
            assert_eq!(*r.get(), value(n), "{polls} polls");
            if go_on {
                block_on(r.set(value(before + 2))).unwrap();
                n = before + 2;
                assert_eq!(*r.get(), value(n), "{polls} polls");
            }
            for _ in 0..3 {
                let r = block_on(Record::open(&mut medium, 0..size, value(99))).unwrap();
                let found = r.get()[0];
                assert_eq!(*r.get(), value(found), "{polls} polls: a mixture");
                assert!(
                    found == n || done.is_none() && !go_on && found == before + 1,
                    "{polls} polls, on with the same record: {go_on}: {found} after {n}"
                );
                n = found;
            }
            if go_on && done.is_some() {
                return polls;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_set_is_dropped_at_each_point() {
    for before in 0..5 {
        assert!(dropped_at_each_point(|| Fram::new(128), 128, before) > 20);
        assert!(dropped_at_each_point(|| WriteOnce::new(3 * 128), 384, before) > 10);
        assert!(dropped_at_each_point(|| Multiwrite::new(3 * 128), 384, before) > 10);
    }
}

/// An open of a blank medium, a migration and a forced format, dropped with every number of polls.
#[test]
fn an_open_is_dropped_at_each_point() {
    fn run<D: AsyncMedium>(blank: impl Fn() -> D, size: u32) {
        for polls in 0.. {
            let mut medium = blank();
            let all = 0..size;
            let done = poll_times(Record::open(&mut medium, all.clone(), value(1)), polls);
            let ended = done.is_some();
            drop(done);
            let r = block_on(Record::open(&mut medium, all.clone(), value(2))).unwrap();
            assert_eq!(*r.get(), value(if ended { 1 } else { r.get()[0] }));
            let before = r.get()[0];
            assert!(before == 1 || before == 2 && !ended, "{before}");
            // A migration to a number.
            let migrated = poll_times(
                Record::open_or_migrate(&mut medium, all.clone(), 0, |old: Value| {
                    u64::from(old[0]) + 10
                }),
                polls,
            );
            drop(migrated);
            let r = block_on(Record::open_or_migrate(
                &mut medium,
                all.clone(),
                0u64,
                |old: Value| u64::from(old[0]) + 10,
            ));
            assert_eq!(*r.unwrap().get(), u64::from(before) + 10);
            // A forced format, as an error is answered by one.
            let format = poll_times(Record::format(&mut medium, all.clone(), 5u64), polls);
            let formatted = format.is_some();
            drop(format);
            let found = block_on(Record::<u64, _>::read(&mut medium, all.clone()));
            match found {
                Ok(Some(v)) => assert!(v == 5 || !formatted && v == u64::from(before) + 10),
                Ok(None) | Err(_) => assert!(!formatted),
            }
            let r = block_on(Record::format(&mut medium, all.clone(), 6u64)).unwrap();
            assert_eq!(*r.get(), 6);
            let r = block_on(Record::open(&mut medium, all, 7u64)).unwrap();
            assert_eq!(*r.get(), 6);
            if ended && formatted {
                break;
            }
        }
    }
    run(|| Fram::new(128), 128);
    run(|| WriteOnce::new(3 * 128), 384);
    run(|| Multiwrite::new(3 * 128), 384);
}

/// A life of sets that are dropped at random, with one object or the next.
fn record_life<D: AsyncMedium>(mut medium: D, size: u32, rounds: u32) {
    let mut random = 3;
    let (mut seen, mut tried) = (0, 0);
    for _ in 0..rounds {
        let polls = next(&mut random) % 800;
        let opened = poll_times(Record::open(&mut medium, 0..size, value(0)), polls);
        let Some(r) = opened else { continue };
        let mut r = r.unwrap();
        let found = r.get()[0];
        assert_eq!(*r.get(), value(found), "a mixture");
        assert!(
            (seen..=tried).contains(&found),
            "{found}, not {seen}..={tried}"
        );
        (seen, tried) = (found, found);
        for _ in 0..next(&mut random) % 4 {
            tried += 1;
            let polls = next(&mut random) % 60;
            if poll_times(r.set(value(tried)), polls).is_some() {
                seen = tried;
            }
        }
    }
    assert!(seen > rounds / 8, "{seen}");
}

#[test]
fn a_life_of_a_record() {
    let rounds = if cfg!(miri) { 30 } else { 20_000 };
    record_life(Fram::new(128), 128, rounds);
    record_life(WriteOnce::new(3 * 128), 3 * 128, rounds);
    record_life(Multiwrite::new(3 * 128), 3 * 128, rounds);
    record_life(WideMultiwrite::new(3 * 256), 3 * 256, rounds);
}

// Wear levelling.

const PAGES: u32 = 6;

/// Writes pages of 8 bytes; futures are dropped at random, in opening, writing and reading.
fn level_life<D: AsyncMedium>(mut medium: D, rounds: u32) {
    let mut random = 5;
    let mut table = [0; 128];
    // For each page: the number seen, and the highest that was tried since.
    let mut pages = [(0u32, 0u32); PAGES as usize];
    let mut count = 0;
    let bytes = |n: u32| {
        let mut b = [0; 8];
        b[..4].copy_from_slice(&n.to_le_bytes());
        b[4..].copy_from_slice(&(n.wrapping_mul(7)).to_le_bytes());
        b
    };
    for _ in 0..rounds {
        let polls = next(&mut random) % 4000;
        let opened = poll_times(WearLevelled::<_, 8>::open(&mut medium, &mut table), polls);
        let Some(d) = opened else { continue };
        let mut d = d.unwrap();
        let check = |d: &mut WearLevelled<'_, &mut D, 8>, pages: &mut [(u32, u32)]| {
            for (page, (seen, tried)) in (0..).zip(pages) {
                let mut b = [0; 8];
                block_on(d.read(8 * page, &mut b)).unwrap();
                let n = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                assert_eq!(b, bytes(n), "a mixture in page {page}");
                let numbers = n == *seen || n == *tried;
                assert!(numbers, "page {page}: {n}, not {seen} or {tried}");
                (*seen, *tried) = (n, n);
            }
        };
        check(&mut d, &mut pages);
        for _ in 0..next(&mut random) % 6 {
            let page = next(&mut random) % PAGES;
            let polls = next(&mut random) % 120;
            count += 1;
            pages[page as usize].1 = count;
            if poll_times(d.write(8 * page, &bytes(count)), polls).is_some() {
                pages[page as usize].0 = count;
            } else if next(&mut random).is_multiple_of(2) {
                // The same object goes on.
                let mut b = [0; 8];
                poll_times(d.read(0, &mut b), next(&mut random) % 500);
                check(&mut d, &mut pages);
                assert_eq!(block_on(d.damaged_pages()).unwrap(), 0);
            } else {
                break;
            }
        }
    }
    assert!(count > rounds / 8, "{count}");
}

#[test]
fn a_life_of_wear_levelling() {
    let rounds = if cfg!(miri) { 20 } else { 60_000 };
    level_life(WriteOnce::new(7 * 128), rounds);
    level_life(Multiwrite::new(7 * 128), rounds);
    level_life(WideMultiwrite::new(7 * 256), rounds);
}

/// A write over two pages, dropped with every number of polls: each page is old or new, the first
/// one first. The same object goes on, or another one is opened.
#[test]
fn a_page_write_is_dropped_at_each_point() {
    fn look<D: AsyncMedium>(d: &mut WearLevelled<'_, D, 8>) -> [u8; 16] {
        let mut b = [0; 16];
        block_on(d.read(0, &mut b)).unwrap();
        b
    }
    fn run<D: AsyncMedium>(blank: impl Fn() -> D) {
        let mut ended = false;
        let mut polls = 0;
        while !ended {
            for go_on in [false, true] {
                let mut medium = blank();
                let mut table = [0; 64];
                let opened = WearLevelled::<_, 8>::open(&mut medium, &mut table);
                let mut d = block_on(opened).unwrap();
                for n in 1..7 {
                    block_on(d.write(0, &[n; 16])).unwrap();
                }
                ended = poll_times(d.write(0, &[9; 16]), polls).is_some();
                let mut found = [0; 16];
                if go_on {
                    found = look(&mut d);
                }
                for i in 0..3 {
                    let opened = WearLevelled::<_, 8>::open(&mut medium, &mut table);
                    let mut d = block_on(opened).unwrap();
                    let again = look(&mut d);
                    assert!(i == 0 && !go_on || again == found, "a page reverted");
                    found = again;
                }
                let (a, b) = found.split_at(8);
                assert!(a == [6; 8] || a == [9; 8], "{found:?}");
                assert!(b == [6; 8] || a == [9; 8] && b == [9; 8], "{found:?}");
                assert!(!ended || b == [9; 8], "{found:?}");
            }
            polls += 1;
        }
        assert!(polls > 8, "{polls}");
    }
    run(|| WriteOnce::new(7 * 128));
    run(|| Multiwrite::new(7 * 128));
    run(|| WideMultiwrite::new(7 * 256));
}

// Dropped futures and power cuts.

/// Drops each second `set` after some polls, in a program that is cut.
fn count<D: Medium>(nv: D, world: &World<'_, Promise>, polls: u32, last: u32) {
    let all = 0..nv.capacity();
    let opened = block_on(Record::open(Slow::new(nv), all, value(0)));
    let mut r = opened.unwrap_or_else(|_| panic!("only a power cut stops it"));
    let seen = |found: &Value| {
        let n = found[0];
        assert_eq!(*found, value(n), "a mixture");
        let p = world.get();
        assert!((p.seen..=p.tried).contains(&n), "{n}, not {p:?}");
        world.set(Promise { seen: n, tried: n });
        n
    };
    for n in seen(r.get())..last {
        world.update(|p| p.tried = n + 1);
        if let Some(done) = poll_times(r.set(value(n + 1)), polls) {
            assert!(done.is_ok(), "only a power cut stops it");
        } else {
            // The old value still counts in this run, and the same record goes on.
            assert_eq!(*r.get(), value(n));
            let done = block_on(r.set(value(n + 1)));
            assert!(done.is_ok(), "only a power cut stops it");
        }
        assert_eq!(seen(r.get()), n + 1);
    }
}

/// One in `n` of these campaigns makes two cuts in each run.
fn cut_and_dropped<C: Chip, const LAST: u32>(size: usize, n: u64) {
    fn after<C: Chip, const LAST: u32, const POLLS: u32>(size: usize, n: u64) {
        let s = explore(Simulated::<C>::new(size), |nv, w| count(nv, w, POLLS, LAST))
            .name(&format!("dropped_after_{POLLS}"))
            .depth(in_turn(POLLS.into(), n))
            .max_depth(2)
            .run();
        println!("{} after {POLLS} polls: {s}", C::CONTRACT.name);
        assert!(s.partial || s.cuts > 100, "{s}");
    }
    after::<C, LAST, 1>(size, n);
    after::<C, LAST, 4>(size, n);
    after::<C, LAST, 9>(size, n);
    after::<C, LAST, 14>(size, n);
    after::<C, LAST, 20>(size, n);
}

#[test]
fn cuts_and_dropped_futures_on_fram() {
    cut_and_dropped::<SpiFram, 2>(128, 1);
}

#[test]
#[cfg_attr(miri, ignore = "flash, two cuts deep")]
fn cuts_and_dropped_futures_on_flash() {
    cut_and_dropped::<Tiny, 1>(3 * 128, 2);
    cut_and_dropped::<TinyMultiwrite, 1>(3 * 128, 2);
}

/// Drops a page write after some polls, then goes on with the same object.
fn write_pages<D: Medium>(nv: D, world: &World<'_, Promise>, polls: u32) {
    let mut table = [0; 64];
    let opened = block_on(WearLevelled::<_, 8>::open(Slow::new(nv), &mut table));
    let mut d = opened.unwrap_or_else(|_| panic!("only a power cut stops it"));
    fn look<D: AsyncMedium>(d: &mut WearLevelled<'_, D, 8>, world: &World<'_, Promise>) -> u32 {
        let mut b = [0; 8];
        let read: Result<(), LevelError<D::Error>> = block_on(d.read(8, &mut b));
        assert!(read.is_ok(), "only a power cut stops it");
        let n = u32::from(b[0]);
        assert_eq!(b, [n as u8; 8], "a mixture");
        let p = world.get();
        assert!((p.seen..=p.tried).contains(&n), "{n}, not {p:?}");
        world.set(Promise { seen: n, tried: n });
        n
    }
    for n in look(&mut d, world)..2 {
        world.update(|p| p.tried = n + 1);
        let new = [n as u8 + 1; 8];
        if poll_times(d.write(8, &new), polls).is_none() && look(&mut d, world) == n {
            world.update(|p| p.tried = n + 1);
            assert!(block_on(d.write(8, &new)).is_ok());
        }
        assert_eq!(look(&mut d, world), n + 1);
    }
}

#[test]
#[cfg_attr(miri, ignore = "flash, two cuts deep")]
fn cuts_and_dropped_page_writes() {
    // Two of the four make two cuts in each run.
    fn run<C: Chip, const POLLS: u32>(name: &str, turn: u64) {
        let s = explore(Simulated::<C>::new(7 * 128), |nv, w| {
            write_pages(nv, w, POLLS)
        })
        .name(&format!("{name}_{POLLS}"))
        .depth(in_turn(turn, 2))
        .max_depth(2)
        .run();
        println!("{name} after {POLLS} polls: {s}");
        assert!(s.partial || s.cuts > 100, "{s}");
    }
    run::<Tiny, 2>("pages", 0);
    run::<Tiny, 6>("pages", 1);
    run::<TinyMultiwrite, 6>("pages_multiwrite", 0);
    run::<TinyMultiwrite, 13>("pages_multiwrite", 1);
}

/// A driver of embedded-storage-async, through the adapter.
#[cfg(feature = "embedded-storage-async")]
#[test]
fn on_the_traits_of_embedded_storage_async() {
    use nvmem::adapter::{FromNor, ToAsyncNor};

    async fn boot<F>(flash: &mut FromNor<F>, boot: u32)
    where
        F: embedded_storage_async::nor_flash::NorFlash,
    {
        let size = Record::<u32, FromNor<F>>::bytes(1);
        let mut r = Record::open(flash, 0..size, 0).await.unwrap();
        assert_eq!(*r.get(), boot);
        r.set(boot + 1).await.unwrap();
    }
    let driver = ToAsyncNor::<_, 128>::new(Slow::new(RamNor::<7, 128, 4>::new()));
    let mut flash = FromNor::new(driver);
    for n in 0..20 {
        block_on(boot(&mut flash, n));
    }
    let mut table = [0; 64];
    block_on(async {
        let mut d = WearLevelled::<_, 8>::format(flash, &mut table)
            .await
            .unwrap();
        d.write(3, b"any bytes").await.unwrap();
        let mut b = [0; 9];
        d.read(3, &mut b).await.unwrap();
        assert_eq!(&b, b"any bytes");
    });
}

// The same bytes as the blocking form.

#[test]
fn the_images_are_those_of_the_blocking_form() {
    fn record<D: Medium>(mut one: D, other: D, bytes: fn(&D) -> &[u8]) {
        let all = 0..one.capacity();
        let mut later = Slow::new(other);
        for n in 0..9 {
            let mut r = nvmem::Record::open(&mut one, all.clone(), value(n)).unwrap();
            let opened = Record::open(&mut later, all.clone(), value(n));
            let mut async_r = block_on(opened).unwrap();
            for k in 0..n % 4 {
                r.set(value(10 * n + k)).unwrap();
                block_on(async_r.set(value(10 * n + k))).unwrap();
            }
            assert_eq!(r.get(), async_r.get());
            assert_eq!(r.updates_per_erase(), async_r.updates_per_erase());
            assert_eq!(bytes(&one), bytes(&later.medium), "boot {n}");
        }
    }
    type Strict = RamNor<3, 128, 8>;
    type Lenient = RamNor<3, 128, 8, 0x00, false>;
    record(RamFram::<96>::filled(0xFF), RamFram::filled(0xFF), |d| {
        d.bytes()
    });
    record(RamMram::<128>::filled(0), RamMram::filled(0), |d| d.bytes());
    record(Strict::new(), Strict::new(), |d| d.bytes());
    record(Lenient::new(), Lenient::new(), |d| d.bytes());

    fn level<const ONCE: bool>() {
        let (mut one, mut later) = (
            RamNor::<7, 256, 4, 0xFF, ONCE>::new(),
            Slow::new(RamNor::<7, 256, 4, 0xFF, ONCE>::new()),
        );
        let (mut table, mut other) = ([0; 128], [0; 128]);
        for n in 0..40u32 {
            let mut d = nvmem::WearLevelled::<_, 8>::open(&mut one, &mut table).unwrap();
            let opened = WearLevelled::<_, 8>::open(&mut later, &mut other);
            let mut async_d = block_on(opened).unwrap();
            for k in 0..n % 5 {
                let at = (13 * n + 5 * k) % (d.capacity() - 12);
                let bytes = [n as u8; 12];
                d.write(at, &bytes).unwrap();
                block_on(async_d.write(at, &bytes)).unwrap();
            }
            assert_eq!(d.erases(), async_d.erases());
            assert_eq!(one.bytes(), later.medium.bytes(), "boot {n}");
        }
    }
    level::<true>();
    level::<false>();
}

/// An executor may move tasks between threads or interrupts.
#[test]
fn futures_are_send() {
    fn send<F: Future + Send>(f: F) -> F {
        f
    }
    let mut fram = RamFram::<512>::filled(0);
    let mut r = block_on(send(Record::open(Slow::new(&mut fram), 0..512, 1u32))).unwrap();
    block_on(send(r.set(2))).unwrap();
    let migrated = send(Record::open_or_migrate(
        Slow::new(&mut fram),
        0..512,
        0,
        |n: u32| u64::from(n),
    ));
    assert_eq!(*block_on(migrated).unwrap().get(), 2);
    let mut flash = RamNor::<7, 128, 4>::new();
    let mut table = [0; 80];
    let opened = send(WearLevelled::<_, 8>::open(
        Slow::new(&mut flash),
        &mut table,
    ));
    let mut d = block_on(opened).unwrap();
    block_on(send(d.write(9, b"page"))).unwrap();
}
