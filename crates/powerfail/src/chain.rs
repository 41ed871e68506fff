//! A chain of cuts, which identifies an execution with power cuts.
//!
//! ```text
//!  run 0 ----------x cut 1        events before the cut persisted; open units get the values in `choices`
//!                  |              (or event n itself is torn, in one of its ways)
//!        run 1 ----+-----x cut 2  unstable words read as `policy` says
//!                        |
//!              run 2 ----+------> end, checked
//! ```
//!
//! The explorer stores the chain of each state as links to the parent's chain. A report and a
//! failure line list the cuts in order.

use crate::schedule::Schedule;
use crate::torn::{Policy, Tear, Torn, UnstableWord, UnstableWords, ways};
use crate::trace::{Event, Trace};
use std::sync::Arc;

/// One cut: its instant, what it left, and how that reads in the next boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The power is cut before the event of this number, or during it if `torn` is set.
    pub(crate) event: u32,
    /// The way in which the event is torn: an index into [`torn_states`].
    pub(crate) torn: Option<u8>,
    /// The units that were open, and the values that they got.
    pub(crate) choices: Vec<(u32, u32)>,
    pub(crate) policy: Policy,
    /// The schedule of the run that is cut.
    pub(crate) schedule: Schedule,
}

pub(crate) struct Link {
    pub(crate) parent: Option<Arc<Link>>,
    pub(crate) cut: Cut,
}

pub(crate) fn chain(link: &Option<Arc<Link>>) -> Vec<Cut> {
    let (mut cuts, mut at) = (Vec::new(), link);
    while let Some(l) = at {
        cuts.push(l.cut.clone());
        at = &l.parent;
    }
    cuts.reverse();
    cuts
}

/// The failure when two boots of one state differ.
pub(crate) const DIFFER: &str = "two boots of the same state differ: something outlives the reboot (a static, a thread \
                                 local), or the program depends on time, addresses or chance";

/// A failed run.
#[derive(Debug, Clone)]
pub(crate) struct FailedRun {
    pub(crate) cuts: Vec<Cut>,
    /// The schedule of the last run.
    pub(crate) schedule: Schedule,
    pub(crate) what: String,
}

impl FailedRun {
    /// A failure without a cut.
    pub(crate) fn uncut(what: impl Into<String>) -> Self {
        FailedRun {
            cuts: Vec::new(),
            schedule: Schedule::default(),
            what: what.into(),
        }
    }
}

/// What a torn program or erase operation leaves.
pub(crate) struct TornState {
    pub(crate) name: String,
    /// The offsets and bytes to write.
    pub(crate) patches: Vec<(u32, Vec<u8>)>,
    /// The unstable words: their offset and their other content.
    pub(crate) alt: Option<(u32, Vec<u8>)>,
    /// The offset of an erase, which wears the unit like a complete one.
    pub(crate) erase: Option<u32>,
}

impl TornState {
    pub(crate) fn apply_to(&self, unstable: &mut UnstableWords) {
        for (at, p) in &self.patches {
            unstable.settle(*at, p.len() as u32);
        }
        if let Some(at) = self.erase {
            unstable.erased(at);
        }
        if let Some((at, alt)) = &self.alt {
            unstable.add(UnstableWord::new(*at, alt));
        }
    }
}

/// Every way in which event `i` may be torn.
pub(crate) fn torn_states(trace: &Trace, i: usize) -> Vec<TornState> {
    let Some(&Event::Program {
        at,
        len,
        side,
        burst,
        how,
    }) = trace.events.get(i)
    else {
        return Vec::new();
    };
    let (old, new) = trace.old_new(side, len);
    let wreck = |t: Torn| TornState {
        name: t.name.into(),
        alt: t.alt.map(|a| (at, a)),
        patches: vec![(at, t.is)],
        erase: how.is_erase().then_some(at),
    };
    let mut all: Vec<TornState> = ways(old, new, how).into_iter().map(wreck).collect();
    if all.is_empty() || how.is_erase() {
        return all;
    }
    // A page's words are programmed together: later words may be complete while earlier ones are
    // not.
    let mut patches = vec![(at, old.to_vec())];
    let page = |e: &Event| matches!(*e, Event::Program { burst: b, .. } if b == burst);
    let linked = |e: &Event| page(e) || matches!(e, Event::Stable { .. } | Event::Unstable { .. });
    for e in trace.events[..i].iter().rev().take_while(|e| linked(e)) {
        if let Event::Program { at, len, side, .. } = *e {
            patches.push((at, trace.old_new(side, len).0.to_vec()));
        }
    }
    for e in trace.events[i + 1..].iter().take_while(|e| linked(e)) {
        if let Event::Program { at, len, side, .. } = *e {
            patches.push((at, trace.old_new(side, len).1.to_vec()));
        }
    }
    if patches.len() > 1 {
        all.push(TornState {
            name: "old or new, the page from its end".into(),
            patches,
            alt: matches!(how, Tear::Unstable { .. }).then(|| (at, new.to_vec())),
            erase: None,
        });
    }
    all
}
