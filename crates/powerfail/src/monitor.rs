//! Watches a campaign from outside: a boot that makes no end, and how far it is.

use crate::chain::{Cut, Link, chain};
use crate::hash::Claims;
use crate::world::Watched;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::hash_map::Entry;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the engines of a campaign share.
pub(crate) struct Shared {
    claims: [Mutex<Claims>; 64],
    seats: Mutex<Vec<Arc<Seat>>>,
    pub(crate) watched: Watched,
    stop: (Mutex<bool>, Condvar),
    /// States of this depth that have been cut everywhere, and how many there are.
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
    pub(crate) level: AtomicU64,
    /// Of an endurance: the hash of all boots before this one.
    pub(crate) lived: AtomicU64,
}

/// Whose a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nobody came by before.
    New,
    /// Only such as come after in the order of one thread, which they were faster than. It is booted once more, so that
    /// the first failure is the same with any number of threads.
    Earlier,
    Taken,
}

/// What one engine is doing.
#[derive(Default)]
pub(crate) struct Seat {
    pub(crate) boots: AtomicU64,
    pub(crate) cuts: AtomicU64,
    busy: AtomicBool,
    now: Mutex<Option<(Option<Arc<Link>>, Cut)>>,
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    pub(crate) fn begin(&self) {
        self.boots.fetch_add(1, Relaxed);
        self.busy.store(true, Relaxed);
    }
    pub(crate) fn end(&self) {
        self.busy.store(false, Relaxed);
    }
    pub(crate) fn at(&self, parent: &Option<Arc<Link>>, cut: &Cut) {
        let mut now = lock(&self.now);
        *now = Some((parent.clone(), cut.clone()));
    }
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Shared {
            claims: std::array::from_fn(|_| Mutex::default()),
            seats: Mutex::default(),
            watched: Mutex::default(),
            stop: (Mutex::new(false), Condvar::new()),
            done: AtomicU64::new(0),
            total: AtomicU64::new(1),
            level: AtomicU64::new(1),
            lived: AtomicU64::new(0),
        })
    }

    /// Claims a state for `rank`, which one thread alone would come by in that order.
    pub(crate) fn claim(&self, key: u128, rank: u64) -> Claim {
        match lock(self.claims(key)).entry(key) {
            Entry::Vacant(e) => {
                e.insert(rank);
                Claim::New
            }
            Entry::Occupied(mut e) if rank < *e.get() => {
                e.insert(rank);
                Claim::Earlier
            }
            Entry::Occupied(_) => Claim::Taken,
        }
    }

    /// Whether the state is still that of `rank`.
    pub(crate) fn is_of(&self, key: u128, rank: u64) -> bool {
        lock(self.claims(key)).get(&key) == Some(&rank)
    }

    fn claims(&self, key: u128) -> &Mutex<Claims> {
        &self.claims[(key >> 64) as usize % 64]
    }

    pub(crate) fn seat(&self) -> Arc<Seat> {
        let seat = Arc::new(Seat::default());
        lock(&self.seats).push(seat.clone());
        seat
    }

    pub(crate) fn stop(&self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
    }

    /// Waits until [`Shared::stop`]. `hung` is called, and does not return, when a boot takes longer than `patience`.
    pub(crate) fn watch(&self, name: &str, depth: u32, patience: Duration, hung: impl Fn(&[Cut])) {
        let mut seen: Vec<(u64, Instant)> = Vec::new();
        let start = Instant::now();
        let mut bar = None;
        let mut stop = lock(&self.stop.0);
        while !*stop {
            let wait = self.stop.1.wait_timeout(stop, Duration::from_millis(250));
            stop = wait.unwrap_or_else(PoisonError::into_inner).0;
            if *stop {
                break;
            }
            let seats = lock(&self.seats).clone();
            seen.resize(seats.len(), (0, Instant::now()));
            for (s, last) in seats.iter().zip(&mut seen) {
                let boots = s.boots.load(Relaxed);
                if boots != last.0 || !s.busy.load(Relaxed) {
                    *last = (boots, Instant::now());
                } else if last.1.elapsed() > patience {
                    let now = lock(&s.now).clone();
                    let cuts = now.map_or_else(Vec::new, |(link, cut)| {
                        let mut cuts = chain(&link);
                        cuts.push(cut);
                        cuts
                    });
                    hung(&cuts);
                }
            }
            if start.elapsed() > Duration::from_secs(2) && std::io::stderr().is_terminal() {
                let bar = bar.get_or_insert_with(progress);
                let sum = |f: fn(&Seat) -> &AtomicU64| -> u64 {
                    seats.iter().map(|s| f(s).load(Relaxed)).sum()
                };
                let (boots, cuts) = (sum(|s| &s.boots), sum(|s| &s.cuts));
                bar.set_length(self.total.load(Relaxed));
                bar.set_position(self.done.load(Relaxed));
                let per_second = boots as f64 / start.elapsed().as_secs_f64();
                bar.set_message(format!(
                    "{name}  depth {} of {depth}  {cuts} cuts, {boots} boots, {per_second:.0}/s",
                    self.level.load(Relaxed)
                ));
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }
}

fn progress() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// What a watchdog says, past the capture of the test's output, before it ends the process.
pub(crate) fn last_words(text: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{text}");
    std::process::exit(101)
}
