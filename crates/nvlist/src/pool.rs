//! Opening a node pool: format, recover, check, refuse.

use crate::error::{OpenError, Part, Refused};
use crate::layout::{FREE, Geometry, KIND, LINKS, VERSION};
use crate::lists::{List, Lists};
use crate::state::Core;
use crate::walk::Audit;
use core::marker::PhantomData;
use nvmem::superblock::{self, State};
use nvmem::{InOrder32, Model, Persist, Region, Superblock, Unit, fingerprint};

/// A region with `L` lists and as many nodes of type `T` as fit, on a medium of the model `M`.
///
/// Operations are done inside of [`NodePool::with`].
pub struct NodePool<'m, T, const L: usize, M = InOrder32> {
    core: Core<'m, M>,
    _t: PhantomData<fn(T) -> T>,
}

/// Refuses at compile time what cannot be a node's content.
const fn fits<T>() {
    assert!(
        align_of::<T>() <= 8,
        "a node's content is aligned to 8 bytes at most: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
    );
    assert!(
        !core::mem::needs_drop::<T>(),
        "a node's content has no drop glue"
    );
}

impl<'m, T: Persist, const L: usize, M: Model> NodePool<'m, T, L, M> {
    /// Opens the pool in `region`: formats a blank one, finishes what was cut in a used one, refuses a foreign one.
    ///
    /// Works on any bytes whatever: every link and every content is checked before it is used, and nodes that are in no list
    /// are free afterwards. **Power loss**: a format begins again; a recovery goes on. **Cost**: at most 7 units to finish an
    /// operation, one for each node that somebody held, and a read of all links and of the content of all lists; to format,
    /// the superblock and one unit for each node. **Errors**: [`OpenError`], with the region back.
    pub fn open(region: Region<'m, M>) -> Result<Self, Refused<'m, M>> {
        Self::open_resolved(region, 0, |_| 0)
    }

    /// Like [`NodePool::open`], with a record for each of so many contexts whose operations take effect with a sequence
    /// number: `resolve(context)` tells the last one that is committed, 0 for none.
    ///
    /// An operation that was staged with that number is finished, any other dropped.
    pub fn open_resolved(
        region: Region<'m, M>,
        contexts: usize,
        resolve: impl Fn(usize) -> u32,
    ) -> Result<Self, Refused<'m, M>> {
        Self::start(region, contexts, &resolve, true)
    }

    /// Like [`NodePool::open_resolved`] without the walk: only the interrupted operation is looked at, however many nodes there are.
    /// For a quick reboot. Nodes that somebody held stay in use until the next [`NodePool::open`] or [`NodePool::reclaim`].
    ///
    /// # Safety
    /// Since the region was formatted by this program, or one with the same types, nothing else has written to it, and the
    /// medium has kept it.
    pub unsafe fn open_trusting(
        region: Region<'m, M>,
        contexts: usize,
        resolve: impl Fn(usize) -> u32,
    ) -> Result<Self, Refused<'m, M>> {
        Self::start(region, contexts, &resolve, false)
    }

    fn start(
        region: Region<'m, M>,
        contexts: usize,
        resolve: &dyn Fn(usize) -> u32,
        check: bool,
    ) -> Result<Self, Refused<'m, M>> {
        const {
            fits::<T>();
            assert!(
                M::Unit::BYTES == 2 || usize::BITS > 16,
                "a medium with 4-byte units wants a processor of 32 bits"
            );
        }
        let geo = match Geometry::new::<M>(region.len(), L, contexts, size_of::<T>()) {
            Ok(geo) => geo,
            Err(error) => return Err(Refused { error, region }),
        };
        let mut core = Core::new(region, geo);
        match Self::mount(&mut core, resolve, check) {
            Ok(()) => Ok(NodePool {
                core,
                _t: PhantomData,
            }),
            Err(error) => Err(Refused {
                error,
                region: core.region,
            }),
        }
    }

    fn mount(
        core: &mut Core<'m, M>,
        resolve: &dyn Fn(usize) -> u32,
        check: bool,
    ) -> Result<(), OpenError> {
        let mine = Superblock {
            kind: KIND,
            version: VERSION,
            fingerprint: fingerprint::<T>(),
            params: core.geo.params::<M>(core.region.len()),
        };
        match superblock::probe(&core.region, &mine) {
            State::Ready(stored) => {
                stored
                    .check_layout(&mine)
                    .map_err(OpenError::LayoutMismatch)?;
                if stored.params != mine.params {
                    return Err(OpenError::OtherDivision);
                }
            }
            State::Blank | State::Formatting => {
                superblock::begin(&mut core.region, &mine);
                Self::format(core);
                superblock::finish(&mut core.region, &mine);
            }
            State::Foreign => return Err(OpenError::Foreign),
            State::Damaged => return Err(OpenError::Damaged(Part::Superblock)),
        }
        core.recover(resolve).map_err(OpenError::Damaged)?;
        if check {
            let met = core.walk(size_of::<T>(), T::check)?;
            if core.count(met)?.held > 0 {
                core.reclaim();
            }
        }
        Ok(())
    }

    fn format(core: &Core<'m, M>) {
        let g = &core.geo;
        let unit = M::Unit::BYTES;
        // SAFETY: units of the records, of the heads' and of the nodes' links.
        unsafe {
            for off in (g.record..g.heads).step_by(unit) {
                core.store(off, 0);
            }
            for i in 0..g.lists {
                let head = core.head(i);
                core.set_pair(g.heads + i * LINKS, head, head);
            }
            for i in 0..g.nodes {
                core.store(g.first + i * g.stride, FREE);
            }
        }
    }

    /// Gives access to the lists. Nodes, lists and positions carry the brand `'b` and cannot leave `body`: they belong to this
    /// pool and to no other.
    ///
    /// A [`Node`](crate::Node) that is neither linked nor released when `body` ends stays in use until
    /// [`NodePool::reclaim`] or the next open. **Cost**: no store.
    #[inline]
    pub fn with<R, F>(&mut self, body: F) -> R
    where
        F: for<'b> FnOnce(Lists<'b, T, M>, [List<'b>; L]) -> R,
    {
        let core = &self.core;
        body(
            Lists::new(core),
            core::array::from_fn(|i| List::new(core.head(i))),
        )
    }

    /// Returns nodes that are in no list: no handle exists outside of [`NodePool::with`]. How many they were.
    ///
    /// **Power loss**: some of them are returned; the next open returns the others. **Cost**: one unit each, and a read of all
    /// links.
    pub fn reclaim(&mut self) -> usize {
        self.core.settle();
        let held = |a: Result<Audit, OpenError>| a.map_or(0, |a| a.held);
        let before = held(self.audit());
        self.core.reclaim();
        before - held(self.audit()).min(before)
    }

    /// Walks everything and counts. **Cost**: no store. **Errors**: [`OpenError::Damaged`], [`OpenError::Invalid`].
    pub fn audit(&mut self) -> Result<Audit, OpenError> {
        self.core.count(self.core.walk(size_of::<T>(), T::check)?)
    }

    /// How many nodes there are, whether in use or not.
    pub fn capacity(&self) -> usize {
        self.core.geo.nodes
    }

    /// How many bytes a region needs for `nodes` nodes and a record for each of `contexts` contexts.
    pub const fn bytes_for(nodes: usize, contexts: usize) -> usize {
        let staged = contexts * 2 * M::Unit::BYTES;
        let heads = (Superblock::BYTES + 16 + staged).next_multiple_of(8);
        let first = (heads + L * LINKS).next_multiple_of(8) + LINKS;
        let stride = (size_of::<T>() + LINKS).next_multiple_of(8);
        (first + nodes * stride).next_multiple_of(8)
    }

    /// Gives the region back.
    pub fn close(self) -> Region<'m, M> {
        self.core.region
    }
}
