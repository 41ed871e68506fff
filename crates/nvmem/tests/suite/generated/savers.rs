//! Tasks that share a saver: more of them than can wait without waking each other, and some are
//! dropped while they wait or save.
//!
//! The judge: each save of a task that is not dropped ends, and all commits are counted. While all
//! waiting tasks have a place, no task is polled for nothing.

use super::cases;
use crate::shared_saver::{Medium, Nothing, Saver, Task, run};
use nvmem::at_rest::{AsyncSave, SharedSaver};
use proptest::prelude::*;
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// As many tasks wait without waking each other.
const PLACES: usize = 8;

/// One task.
#[derive(Clone, Copy, Debug)]
struct Script {
    saves: u8,
    /// It is dropped at so many polls.
    dropped: Option<u8>,
}

fn scripts() -> impl Strategy<Value = Vec<Script>> {
    let dropped = prop_oneof![4 => Just(None), 1 => (0..8_u8).prop_map(Some)];
    let task = (0..5_u8, dropped).prop_map(|(saves, dropped)| Script { saves, dropped });
    prop_oneof![
        prop::collection::vec(task.clone(), 1..=PLACES + 1),
        prop::collection::vec(task, 1..2 * PLACES + 4),
    ]
}

/// Polls a task so often, and then drops it.
fn dropped_at(mut polls: u8, task: Task<'_>) -> Task<'_> {
    let mut task = Some(task);
    Box::pin(poll_fn(move |context| {
        let Some(left) = polls.checked_sub(1) else {
            task = None;
            return Poll::Ready(());
        };
        polls = left;
        task.as_mut().unwrap().as_mut().poll(context)
    }))
}

#[test]
fn shared() {
    cases(60, scripts(), |scripts| {
        let (medium, commits, begun) = (Medium::default(), Cell::new(0), Cell::new(0));
        let shared = SharedSaver::new(Saver {
            medium: &medium,
            commits: &commits,
            saves: 0,
        });
        let ended = Cell::new(0);
        let task = |script: &Script| -> Task<'_> {
            let saves = script.saves;
            let (shared, begun, ended) = (&shared, &begun, &ended);
            let task: Task<'_> = Box::pin(async move {
                for _ in 0..saves {
                    begun.set(begun.get() + 1);
                    (&*shared).count_commit();
                    (&*shared).durable(&mut Nothing).await.unwrap();
                    ended.set(ended.get() + 1);
                }
            });
            match script.dropped {
                None => task,
                Some(polls) => dropped_at(polls, task),
            }
        };
        let tasks = scripts.iter().map(task).collect();
        // The medium is ready at last also while tasks wake each other.
        let most = run(&medium, tasks, 100);
        let places = scripts.len() <= PLACES + 1;
        assert!(
            !places || most <= 2 * scripts.len() as u32 + 1,
            "{most} polls"
        );
        // A save that follows counts what nobody has counted yet.
        run(
            &medium,
            vec![task(&Script {
                saves: 1,
                dropped: None,
            })],
            100,
        );
        assert_eq!(commits.get(), begun.get(), "each commit is counted");
        let kept = scripts.iter().filter(|s| s.dropped.is_none());
        let saves: u32 = kept.map(|s| u32::from(s.saves)).sum();
        assert!(ended.get() > saves, "{} of {saves} have ended", ended.get());
        assert_eq!(shared.into_inner().saves, ended.get());
    });
}
