//! A quick look: a few of the cuts of a run, and no run twice. For where a boot takes a second, as under Miri.

use crate::chain::Bad;
use crate::engine::{Engine, Run};
use crate::medium::Media;
use crate::trace::Trace;
use crate::walk::Walk;
use crate::world::Outside;

/// A campaign without a cut would find nothing, whatever the program does.
pub(crate) fn stored(cuts: usize) -> Result<(), Bad> {
    match cuts {
        0 => Err(Bad::uncut("nothing to explore: the program stored nothing")),
        _ => Ok(()),
    }
}

impl<M: Media, T: Outside> Engine<'_, M, T> {
    /// Spreads `n` cuts over the run that is going to be cut.
    pub(crate) fn pace(&mut self, n: u64, run: &Run<T>, trace: &Trace) -> Result<(), Bad> {
        if let Err(what) = &run.end {
            return Err(Bad::uncut(what.as_str()));
        }
        let cuts = trace.events.iter().filter(|e| Walk::is_cut(e)).count();
        stored(cuts)?;
        self.stride = (cuts as u64).div_ceil(n.max(1)).max(1);
        // The first in the middle of the first part.
        self.passed = self.stride / 2;
        Ok(())
    }

    /// Whether these instants are judged: in a quick look those with every `stride`-th cut are.
    pub(crate) fn turn(&mut self, instants: &mut u64) -> bool {
        let Some(n) = self.setup.thin else {
            return true;
        };
        let before = self.passed;
        self.passed += *instants;
        if self.count.boots < 2 * n && before / self.stride != self.passed / self.stride {
            return true;
        }
        self.count.sampled += 1;
        self.count.cuts += std::mem::take(instants);
        false
    }
}
