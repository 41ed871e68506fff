//! Tasks that share a saver: each one's save ends, and while one save waits for the medium the
//! others sleep.

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use nvmem::at_rest::{AsyncSave, AtRest, RestingRegion, SharedSaver};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// The interrupt that says that the medium is ready.
#[derive(Default)]
pub struct Medium {
    ready: Cell<bool>,
    waits: RefCell<Option<Waker>>,
}

impl Medium {
    async fn operation(&self) {
        poll_fn(|context| {
            if self.ready.take() {
                return Poll::Ready(());
            }
            *self.waits.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn interrupt(&self) {
        let waits = self.waits.borrow_mut().take();
        waits.expect("a save is under way").wake();
        self.ready.set(true);
    }
}

/// A saver whose saves each take three operations of the medium.
pub struct Saver<'m> {
    pub medium: &'m Medium,
    pub commits: &'m Cell<u32>,
    pub saves: u32,
}

impl AsyncSave for Saver<'_> {
    type Error = ();
    fn count_commit(&mut self) {
        self.commits.set(self.commits.get() + 1);
    }
    async fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), ()> {
        self.durable(owner).await
    }
    async fn durable<T: AtRest>(&mut self, _: &mut T) -> Result<(), ()> {
        for _ in 0..3 {
            self.medium.operation().await;
        }
        self.saves += 1;
        Ok(())
    }
}

/// An owner of no bytes.
pub struct Nothing;

// SAFETY: there are no bytes.
unsafe impl AtRest for Nothing {
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        let base = core::ptr::without_provenance_mut(8);
        let scratch = 0..0;
        f(RestingRegion {
            base,
            len: 0,
            scratch,
        })
    }
}

/// Whether a task is to be polled.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Polls the tasks that were woken, in turn, until all have ended. The medium is ready when no task
/// is woken, or after `patience` polls. Returns how many polls there were at most between two
/// operations of the medium.
pub fn run(medium: &Medium, tasks: Vec<Task<'_>>, patience: u32) -> u32 {
    let mut tasks: VecDeque<_> = tasks
        .into_iter()
        .map(|task| (task, Arc::new(Woken(AtomicBool::new(true)))))
        .collect();
    let (mut polls, mut most) = (0, 0);
    while !tasks.is_empty() {
        let next = tasks.iter().position(|t| t.1.0.load(Ordering::SeqCst));
        most = most.max(polls);
        let Some(next) = next.filter(|_| polls < patience) else {
            medium.interrupt();
            polls = 0;
            continue;
        };
        polls += 1;
        // Those that were woken are polled in turn.
        let (mut task, woken) = tasks.remove(next).unwrap();
        woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(woken.clone());
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            tasks.push_back((task, woken));
        }
    }
    most
}

/// So many tasks that each commit and save so often.
fn share(tasks: u32, saves: u32, patience: u32) -> u32 {
    let (medium, commits) = (Medium::default(), Cell::new(0));
    let shared = SharedSaver::new(Saver {
        medium: &medium,
        commits: &commits,
        saves: 0,
    });
    let task = |_| -> Task<'_> {
        Box::pin(async {
            for _ in 0..saves {
                (&shared).count_commit();
                (&shared).durable(&mut Nothing).await.unwrap();
            }
        })
    };
    let most = run(&medium, (0..tasks).map(task).collect(), patience);
    assert_eq!(shared.into_inner().saves, tasks * saves);
    assert_eq!(commits.get(), tasks * saves);
    most
}

/// While a save waits for the medium, each task is polled once, or twice where a save has ended: no
/// task wakes another one that can only wait.
#[test]
fn tasks_that_wait_sleep() {
    for tasks in 1..=9 {
        for saves in [1, 2, 5] {
            let most = share(tasks, saves, 1000);
            assert!(most <= 2 * tasks + 1, "{tasks} tasks, {most} polls");
        }
    }
}

/// More tasks than there are places wake each other, but each of them ends.
#[test]
fn more_tasks_than_places() {
    for tasks in [10, 11, 20] {
        share(tasks, 3, 50);
    }
}

/// A task that waits ends while it waits. The others go on, and so do those that come later.
#[test]
fn a_task_that_waits_is_dropped() {
    let (medium, commits) = (Medium::default(), Cell::new(0));
    let shared = SharedSaver::new(Saver {
        medium: &medium,
        commits: &commits,
        saves: 0,
    });
    let save =
        || -> Task<'_> { Box::pin(async { (&shared).durable(&mut Nothing).await.unwrap() }) };
    let mut context = Context::from_waker(Waker::noop());
    let mut first = save();
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut dropped = save();
    assert!(dropped.as_mut().poll(&mut context).is_pending());
    drop(dropped);
    let mut rest: Vec<Task<'_>> = (0..3).map(|_| save()).collect();
    rest.push(first);
    run(&medium, rest, 1000);
    // One that has the saver is dropped: another one gets it.
    let mut cut = save();
    assert!(cut.as_mut().poll(&mut context).is_pending());
    let mut waits = save();
    assert!(waits.as_mut().poll(&mut context).is_pending());
    drop(cut);
    run(&medium, vec![waits], 1000);
    assert_eq!(shared.into_inner().saves, 5);
}
