//! Tells a mirror that no transaction of a pool is open, and which bytes do not matter at that
//! time.

use crate::context::{Context, Core, CtxState, flag};
use crate::pool::{Pool, Roots};
use crate::ptr::Width;
use nvmem::at_rest::{AtRest, RestingRegion};
use nvmem::{Model, Ram, planted};

// SAFETY: invariants "Sole region" and "Saved bytes have values": the pool owns its region, whose
// model is `Ram`, and contexts, transactions and loans borrow the pool. Without an open transaction
// no journal entry is valid, as if all were zero, and the marks of a walk are made anew by the next
// one.
unsafe impl<R: Roots, M: Model> AtRest for Pool<'_, R, Ram<M>>
where
    M::Unit: Width,
{
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        let (core, all) = self.core_and_states();
        f(resting(core, all))
    }
}

impl<R, M: Model> Context<'_, R, M> {
    /// The pool's region, as [`AtRest::resting`] describes it. It is at rest while no other context
    /// is in use and no transaction of this one runs. Where contexts preempt each other, nothing is
    /// scratch.
    #[doc(hidden)]
    pub fn resting(&mut self) -> RestingRegion {
        let mine = core::slice::from_ref(self.s);
        let mut all = self.others;
        if all.is_empty() || planted!("pmem-tx/rest-ignores-others") {
            all = mine;
        }
        let mut region = resting(self.core, all);
        if M::PREEMPTED && !planted!("pmem-tx/rest-ignores-others") {
            region.scratch = 0..0;
        }
        region
    }
}

fn resting<M: Model>(core: &Core<'_, M>, all: &[CtxState]) -> RestingRegion {
    // A transaction whose token or stack was given up: its entries are still needed.
    let open = |s: &CtxState| s.level() > 0 || s.is(flag::PREPARED);
    let open = all.iter().any(open) && !planted!("pmem-tx/rest-ignores-open");
    let scratch = core.geo.journals..core.geo.heap & !7;
    RestingRegion {
        base: core.region.base(),
        len: core.region.len(),
        scratch: if open { 0..0 } else { scratch },
    }
}
