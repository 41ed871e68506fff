//! Which states to try when a cut leaves more than can be tried.

use crate::walk::Pend;

/// All, none, each prefix, each single, all but each one, garbage in what is lent, and 64 at random.
pub(crate) fn choices(pend: &[Pend], seed: u64) -> Vec<Vec<(u32, u32)>> {
    let n = pend.len();
    let pick = |present: &dyn Fn(usize) -> bool| -> Vec<(u32, u32)> {
        pend.iter()
            .enumerate()
            .map(|(i, p)| {
                let last = p.vals.len() - 1 - usize::from(p.wild);
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
    // Whatever user code had half done in the ranges that were lent.
    all.push(
        pend.iter()
            .filter_map(|p| Some((p.at, *p.vals.last()?)))
            .collect(),
    );
    let mut state = seed;
    for _ in 0..64 {
        all.push(
            pend.iter()
                .map(|p| {
                    state = state
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    (p.at, p.vals[(state >> 33) as usize % p.vals.len()])
                })
                .collect(),
        );
    }
    all
}
