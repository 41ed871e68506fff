//! A quick look: boots a few of a run's cuts, and compares no runs. For Miri, where a boot may take
//! a second.

use crate::chain::FailedRun;
use crate::engine::{Engine, Run};
use crate::trace::Trace;
use crate::walk::Walk;

/// Fails if there is no cut: such a campaign would find nothing.
pub(crate) fn require_cuts(cuts: usize) -> Result<(), FailedRun> {
    match cuts {
        0 => Err(FailedRun::uncut(
            "nothing to explore: the program stored nothing",
        )),
        _ => Ok(()),
    }
}

impl Engine<'_> {
    /// Spreads `n` cuts over the run that is about to be cut.
    pub(crate) fn choose_stride(
        &mut self,
        n: u64,
        run: &Run,
        trace: &Trace,
    ) -> Result<(), FailedRun> {
        if let Err(what) = &run.end {
            return Err(FailedRun::uncut(what.as_str()));
        }
        let cuts = trace.events.iter().filter(|e| Walk::is_cut(e)).count();
        require_cuts(cuts)?;
        self.stride = (cuts as u64).div_ceil(n.max(1)).max(1);
        // The first one lies in the middle of the first stride.
        self.passed = self.stride / 2;
        Ok(())
    }

    /// Whether these instants are booted: in a quick look, only every `stride`-th cut is.
    pub(crate) fn is_selected(&mut self, instants: &mut u64) -> bool {
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
