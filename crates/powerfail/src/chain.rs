//! What identifies an execution with power cuts: the cuts, in order.

use crate::torn::{Policy, Shaky, ShakySet, Tear, Torn, ways};
use crate::trace::{Event, Trace};
use std::sync::Arc;

/// One cut: when, what it left, and how that reads in the boot after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The power goes before the event of this number, or in it when `torn`.
    pub(crate) event: u32,
    /// Which of the ways in which the event may be torn.
    pub(crate) torn: Option<u8>,
    /// Unit and value, where it was open.
    pub(crate) choices: Vec<(u32, u32)>,
    pub(crate) policy: Policy,
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

/// What is wrong when a state does not always boot alike.
pub(crate) const DIFFER: &str = "two boots of the same state differ: something outlives the reboot (a static, a thread \
                                 local), or the program depends on time, addresses or chance";

/// How a run ended badly.
#[derive(Debug, Clone)]
pub(crate) struct Bad {
    pub(crate) cuts: Vec<Cut>,
    pub(crate) what: String,
}

impl Bad {
    /// It needed no cut.
    pub(crate) fn uncut(what: impl Into<String>) -> Self {
        Bad {
            cuts: Vec::new(),
            what: what.into(),
        }
    }
}

/// What a torn program or erase leaves.
pub(crate) struct Wreck {
    pub(crate) name: String,
    /// What to put where.
    pub(crate) patches: Vec<(u32, Vec<u8>)>,
    /// What is unstable then: place and other content.
    pub(crate) alt: Option<(u32, Vec<u8>)>,
    /// An erase, at this place: it wears the unit as a whole one does.
    pub(crate) erase: Option<u32>,
}

impl Wreck {
    pub(crate) fn mark(&self, shaky: &mut ShakySet) {
        for (at, p) in &self.patches {
            shaky.settle(*at, p.len() as u32);
        }
        if let Some(at) = self.erase {
            shaky.erased(at);
        }
        if let Some((at, alt)) = &self.alt {
            shaky.add(Shaky::new(*at, alt));
        }
    }
}

/// Every way in which event `i` may be torn.
pub(crate) fn wrecks(trace: &Trace, i: usize) -> Vec<Wreck> {
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
    let wreck = |t: Torn| Wreck {
        name: t.name.into(),
        alt: t.alt.map(|a| (at, a)),
        patches: vec![(at, t.is)],
        erase: how.is_erase().then_some(at),
    };
    let mut all: Vec<Wreck> = ways(old, new, how).into_iter().map(wreck).collect();
    if all.is_empty() || how.is_erase() {
        return all;
    }
    // The words of a page go together: those after may be there, and those before not.
    let mut patches = vec![(at, old.to_vec())];
    let page = |e: &Event| matches!(*e, Event::Program { burst: b, .. } if b == burst);
    let linked = |e: &Event| page(e) || matches!(e, Event::Steady { .. } | Event::Shaky { .. });
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
        all.push(Wreck {
            name: "old or new, the page from its end".into(),
            patches,
            alt: matches!(how, Tear::Unstable { .. }).then(|| (at, new.to_vec())),
            erase: None,
        });
    }
    all
}
