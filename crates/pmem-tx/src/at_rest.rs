//! A pool tells a mirror that it is at rest, and which of its bytes do not matter then.

use crate::context::flag;
use crate::pool::{Pool, Roots};
use crate::ptr::Width;
use nvmem::at_rest::{AtRest, RestingRegion};
use nvmem::{Model, planted};

// SAFETY: invariant "Sole region": the pool owns its region, and contexts, transactions and loans
// borrow the pool. Without an open transaction no journal entry is valid, as if all were zero, and
// the marks of a walk are made anew by the next one.
unsafe impl<R: Roots, M: Model> AtRest for Pool<'_, R, M>
where
    M::Unit: Width,
{
    fn at_rest(&mut self) -> RestingRegion {
        let (core, all) = self.core_and_states();
        // A transaction whose token or stack was given up: its entries are still needed.
        let open = |s: &crate::context::CtxState| s.level() > 0 || s.is(flag::PREPARED);
        let open = all.iter().any(open) && !planted!("pmem-tx/rest-ignores-open");
        let scratch = core.geo.journals..core.geo.heap & !7;
        RestingRegion {
            base: core.region.base(),
            len: core.region.len(),
            scratch: if open { 0..0 } else { scratch },
        }
    }
}
