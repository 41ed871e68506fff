//! Samples the states of a cut that leaves too many.

use crate::rng::Rng;
use crate::walk::OpenUnit;

/// All units new, none new, each prefix, each single unit, all but each unit, garbage in lent
/// ranges, and 64 random choices.
pub(crate) fn choices(pend: &[OpenUnit], seed: u64) -> Vec<Vec<(u32, u32)>> {
    let n = pend.len();
    let pick = |present: &dyn Fn(usize) -> bool| -> Vec<(u32, u32)> {
        pend.iter()
            .enumerate()
            .map(|(i, p)| {
                let last = p.vals.len() - 1 - usize::from(p.has_garbage);
                let k = if present(i) { last } else { 0 };
                (p.at, p.vals[k])
            })
            .collect()
    };
    let mut all = vec![pick(&|_| true), pick(&|_| false)];
    for k in 0..n {
        all.push(pick(&|i| i <= k));
        all.push(pick(&|i| i == k));
        all.push(pick(&|i| i != k));
    }
    // Anything that user code may have left half done in lent ranges.
    all.push(
        pend.iter()
            .filter_map(|p| Some((p.at, *p.vals.last()?)))
            .collect(),
    );
    let mut rng = Rng::new(seed);
    for _ in 0..64 {
        all.push(
            pend.iter()
                .map(|p| (p.at, p.vals[rng.below(p.vals.len() as u64) as usize]))
                .collect(),
        );
    }
    all
}
