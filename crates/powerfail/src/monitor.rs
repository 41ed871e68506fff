//! Watches a campaign: the watchdog for boots that do not end, the progress bar, and the claims of
//! states.

use crate::chain::{Cut, Link, chain};
use crate::hash::Claims;
use crate::overflow::{self, Overflow};
use crate::report;
use crate::schedule::Schedule;
use crate::world::Watched;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::hash_map::Entry;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// No boot takes so long by the wall's clock, however busy the computer: one that does hangs.
pub(crate) const HANG: Duration = Duration::from_secs(600);

/// What all engines of a campaign share.
pub(crate) struct Shared {
    claims: [Mutex<Claims>; 64],
    statuses: Mutex<Vec<Arc<EngineStatus>>>,
    pub(crate) watched: Watched,
    stop: (Mutex<bool>, Condvar),
    /// The states of this level that were cut everywhere, and the number of all.
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
    pub(crate) level: AtomicU64,
    /// In an endurance: the hash of all boots before this one.
    pub(crate) lived: AtomicU64,
}

/// The result of claiming a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// No rank claimed it before.
    New,
    /// Only later ranks of the single-thread order claimed it, on a faster thread. It is booted
    /// once more, so that the first failure is the same with any number of threads.
    Earlier,
    Taken,
}

/// The current activity of one engine.
#[derive(Default)]
pub(crate) struct EngineStatus {
    pub(crate) boots: AtomicU64,
    pub(crate) cuts: AtomicU64,
    busy: AtomicBool,
    now: Mutex<Option<(Option<Arc<Link>>, Cut)>>,
    /// The schedule of this boot.
    schedule: Mutex<Schedule>,
    /// The thread of its boots.
    thread: OnceLock<Thread>,
    overflow: Overflow,
}

/// A thread of this process, as a file that says how long it has run; empty where the system has no
/// such file.
struct Thread(PathBuf);

impl Thread {
    /// The thread that calls this.
    fn this() -> Self {
        let path = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        Thread(match path.as_os_str().is_empty() {
            true => path,
            false => Path::new("/proc").join(path).join("schedstat"),
        })
    }

    /// The processor time that it has used. Other programs on the computer do not change it.
    fn ran(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(&self.0).ok()?;
        let nanoseconds = text.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EngineStatus {
    pub(crate) fn begin(&self) {
        // Under Miri nobody watches.
        if !cfg!(miri) {
            self.thread.get_or_init(Thread::this);
        }
        overflow::tell(Some(&self.overflow));
        self.boots.fetch_add(1, Relaxed);
        self.busy.store(true, Relaxed);
    }
    pub(crate) fn end(&self) {
        overflow::tell(None);
        self.busy.store(false, Relaxed);
    }
    pub(crate) fn at(&self, parent: &Option<Arc<Link>>, cut: &Cut) {
        let mut now = lock(&self.now);
        *now = Some((parent.clone(), cut.clone()));
    }

    pub(crate) fn under(&self, schedule: &Schedule) {
        *lock(&self.schedule) = schedule.clone();
    }
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Shared {
            claims: std::array::from_fn(|_| Mutex::default()),
            statuses: Mutex::default(),
            watched: Mutex::default(),
            stop: (Mutex::new(false), Condvar::new()),
            done: AtomicU64::new(0),
            total: AtomicU64::new(1),
            level: AtomicU64::new(1),
            lived: AtomicU64::new(0),
        })
    }

    // INVARIANT "First is first": the reported failure is the first in the order of one thread,
    // whatever the number of threads. An earlier rank takes a claim over and boots again.
    // Noticed by: `the_first_failure_is_the_same_with_any_number_of_threads` in
    // tests/suite/shards.rs.

    /// Claims a state for `rank`, its position in the order of a single thread.
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

    /// Whether the state is still claimed by `rank`.
    pub(crate) fn belongs_to(&self, key: u128, rank: u64) -> bool {
        lock(self.claims(key)).get(&key) == Some(&rank)
    }

    fn claims(&self, key: u128) -> &Mutex<Claims> {
        &self.claims[(key >> 64) as usize % 64]
    }

    pub(crate) fn status(&self) -> Arc<EngineStatus> {
        let status = Arc::new(EngineStatus::default());
        lock(&self.statuses).push(status.clone());
        status
    }

    pub(crate) fn stop(&self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
    }

    /// Waits until [`Shared::stop`]. Calls `hung`, which does not return, with what has happened:
    /// a boot uses more processor time than `patience`, or takes longer than [`HANG`], or has
    /// overflowed a stack.
    pub(crate) fn watch(
        &self,
        name: &str,
        depth: u32,
        patience: Duration,
        hung: impl Fn(&[Cut], &Schedule, &str),
    ) {
        let mut seen: Vec<(u64, Instant, Option<Duration>)> = Vec::new();
        let start = Instant::now();
        let mut bar = None;
        let mut stop = lock(&self.stop.0);
        while !*stop {
            let wait = self.stop.1.wait_timeout(stop, Duration::from_millis(250));
            stop = wait.unwrap_or_else(PoisonError::into_inner).0;
            if *stop {
                break;
            }
            let statuses = lock(&self.statuses).clone();
            seen.resize(statuses.len(), (0, Instant::now(), None));
            for (s, last) in statuses.iter().zip(&mut seen) {
                let boots = s.boots.load(Relaxed);
                let ran = s.thread.get().and_then(Thread::ran);
                if boots != last.0 || !s.busy.load(Relaxed) {
                    *last = (boots, Instant::now(), ran);
                    continue;
                }
                let used = ran.zip(last.2).map(|(now, then)| now.saturating_sub(then));
                let is_late = used.is_some_and(|t| t > patience);
                let hangs = is_late || last.1.elapsed() > patience.max(HANG);
                let overflow = s.overflow.thread();
                if hangs || overflow.is_some() {
                    let what = match overflow {
                        Some(thread) => report::overflow(&thread),
                        None => report::no_end(patience),
                    };
                    let now = lock(&s.now).clone();
                    let cuts = now.map_or_else(Vec::new, |(link, cut)| {
                        let mut cuts = chain(&link);
                        cuts.push(cut);
                        cuts
                    });
                    hung(&cuts, &lock(&s.schedule), &what);
                }
            }
            if start.elapsed() > Duration::from_secs(2) && std::io::stderr().is_terminal() {
                let bar = bar.get_or_insert_with(progress);
                let sum = |f: fn(&EngineStatus) -> &AtomicU64| -> u64 {
                    statuses.iter().map(|s| f(s).load(Relaxed)).sum()
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

/// Prints the watchdog's text, bypassing the test's output capture, and ends the process.
pub(crate) fn last_words(text: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{text}");
    std::process::exit(101)
}
