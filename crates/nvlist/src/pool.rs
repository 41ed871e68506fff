//! Opening a node pool: format a blank region, recover and check a used one, refuse a foreign one.

use crate::error::{Component, OpenError, OpenFailure};
use crate::layout::{Geometry, KIND, Stride, VERSION};
use crate::lists::{List, Lists};
use crate::map::{Core, LinkMap};
use crate::walk::Audit;
use core::marker::PhantomData;
use nvmem::at_rest::{AtRest, RestingRegion};
use nvmem::superblock::{self, Difference, State};
use nvmem::{
    CommitNumber, InOrder32, LayoutMismatch, Model, NumberOwner, Persist, Ram, Region, Superblock,
    Unit, fingerprint,
};

/// A region with `L` lists and as many nodes of type `T` as fit. `M` is the model of the medium.
///
/// Operations run inside of [`NodePool::with`].
pub struct NodePool<'m, T, const L: usize, M = InOrder32> {
    core: Core<'m, M>,
    _t: PhantomData<fn(T) -> T>,
}

/// Rejects at compile time types that cannot be a node's content.
const fn assert_storable<T: Persist>() {
    assert!(
        !T::HANDLES,
        "a node's content holds no handle of a pool: no list frees it, and the next open refuses it"
    );
    assert!(
        align_of::<T>() <= 8,
        "a node's content must be aligned to at most 8 bytes: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
    );
    assert!(
        !core::mem::needs_drop::<T>(),
        "a node's content must not have drop glue"
    );
}

impl<'m, T: Persist, const L: usize, M: Model> NodePool<'m, T, L, M> {
    /// Opens the pool in `region`: formats a blank region, finishes the interrupted operation of a
    /// used one, refuses a foreign one.
    ///
    /// Accepts any bytes: every link and every content is checked before it is used. Afterwards
    /// nodes that are in no list are free. **Power loss**: a format starts over; a recovery
    /// continues. **Cost**: at most 7 units to finish an operation, one for each node that a handle
    /// owned, and a read of all links and of the content of all lists. To format: the superblock
    /// and one unit for each node. **Errors**: [`OpenError`], with the region back.
    ///
    /// A node's content holds no handle of a pool: no walk of that pool would find it. So this does
    /// not compile:
    ///
    /// ```compile_fail,E0080
    /// # use nvlist::{NodePool, nvmem::{InOrder32, Region}};
    /// use pmem_tx::PBox;
    /// # let mut memory = [const { core::mem::MaybeUninit::<u64>::new(0) }; 64];
    /// # let region = Region::<InOrder32>::new(&mut memory);
    /// let pool = NodePool::<PBox<'_, u32>, 1>::open(region);
    /// ```
    pub fn open(region: Region<'m, M>) -> Result<Self, OpenFailure<'m, M>> {
        Self::open_resolved(region, 0, |_| 0)
    }

    /// Like [`NodePool::open`], with a record for each of `contexts` contexts. Their staged
    /// operations take effect with the number of a commit. `resolve(context)` returns the last
    /// committed one, 0 for none: that of a region of `nv-replay`, or a `u32` if the program stores
    /// the commits itself. Each context is a thread of the same region, in their order.
    ///
    /// An operation that was staged with that number is finished; any other is dropped. **Errors**:
    /// those of [`NodePool::open`]; [`OpenError::WrongOwner`].
    pub fn open_resolved<'o, N: Into<CommitNumber<'o>>>(
        region: Region<'m, M>,
        contexts: usize,
        resolve: impl Fn(usize) -> N,
    ) -> Result<Self, OpenFailure<'m, M>> {
        Self::open_checked(region, contexts, &|context| resolve(context).into(), true)
    }

    /// Like [`NodePool::open_resolved`] without the walk, for a quick reboot: it only finishes the
    /// interrupted operation, however many nodes there are. Nodes that a handle owned stay in use
    /// until the next [`NodePool::open`] or [`NodePool::reclaim`].
    ///
    /// **Errors**: those of [`NodePool::open`] but [`OpenError::Invalid`] and damaged
    /// [`Component::Links`], which only the walk finds.
    ///
    /// # Safety
    /// This program, or one with the same types, formatted the region. Nothing else has written to
    /// it since, and the medium has kept it.
    pub unsafe fn open_trusting<'o, N: Into<CommitNumber<'o>>>(
        region: Region<'m, M>,
        contexts: usize,
        resolve: impl Fn(usize) -> N,
    ) -> Result<Self, OpenFailure<'m, M>> {
        Self::open_checked(region, contexts, &|context| resolve(context).into(), false)
    }

    fn open_checked<'o>(
        region: Region<'m, M>,
        contexts: usize,
        resolve: &dyn Fn(usize) -> CommitNumber<'o>,
        check: bool,
    ) -> Result<Self, OpenFailure<'m, M>> {
        const {
            assert_storable::<T>();
            assert!(
                M::Unit::BYTES == 2 || usize::BITS > 16,
                "a medium with 4-byte units needs a 32-bit processor"
            );
        }
        let stride = const { Stride::new::<M>(size_of::<T>()) };
        let geo = match Geometry::new::<M>(region.len(), L, contexts, stride) {
            Ok(geo) => geo,
            Err(error) => return Err(OpenFailure { error, region }),
        };
        let region = Self::mount(region, &geo)?;
        let owner = match contexts {
            0 => NumberOwner::PROGRAM,
            _ => resolve(0).owner(),
        };
        let core = Core::new(region, geo, owner);
        match Self::recover(&core, resolve, check) {
            Ok(()) => Ok(NodePool {
                core,
                _t: PhantomData,
            }),
            Err(error) => Err(OpenFailure {
                error,
                region: core.map.region,
            }),
        }
    }

    /// Checks the superblock; formats a blank region.
    #[inline]
    fn mount(
        mut region: Region<'m, M>,
        geo: &Geometry,
    ) -> Result<Region<'m, M>, OpenFailure<'m, M>> {
        let mut mine = Superblock {
            kind: KIND,
            version: VERSION,
            fingerprint: fingerprint::<T>(),
            params: geo.params::<M>(region.len()),
        };
        let error = match superblock::probe_view(&region, &mine) {
            State::Ready(view) if view.is_expected() => return Ok(region),
            State::Ready(view) => match view.agrees(&mut mine, 0) {
                Ok(()) => return Ok(region),
                Err(Difference::Layout) => OpenError::LayoutMismatch(LayoutMismatch {
                    stored: view.layout(),
                    expected: mine.layout(),
                }),
                Err(Difference::Param(_)) => OpenError::ConfigMismatch,
            },
            State::Blank | State::Formatting => {
                let marker = superblock::begin_marked(&mut region, &mine);
                let map = LinkMap { region, geo: *geo };
                map.format();
                region = map.region;
                superblock::finish_marked(&mut region, marker, &mine);
                return Ok(region);
            }
            State::Foreign => OpenError::Foreign,
            State::Damaged => OpenError::Damaged(Component::Superblock),
        };
        Err(OpenFailure { error, region })
    }

    #[inline]
    fn recover<'o>(
        core: &Core<'m, M>,
        resolve: &dyn Fn(usize) -> CommitNumber<'o>,
        check: bool,
    ) -> Result<(), OpenError> {
        let mut owners = 0..core.geo.contexts;
        if owners.any(|i| resolve(i).owner() != core.context_owner(i)) {
            return Err(OpenError::WrongOwner);
        }
        let map = &core.map;
        map.recover(&|context| resolve(context).get())
            .ok_or(OpenError::Damaged(Component::Record))?;
        if check {
            map.check_all(size_of::<T>(), T::check)?;
        }
        Ok(())
    }

    /// Gives access to the lists. Nodes, lists and cursors carry the brand `'b` and cannot leave
    /// `body`: they belong to this pool only.
    ///
    /// A [`Node`](crate::Node) that is neither linked nor released when `body` ends stays in use
    /// until [`NodePool::reclaim`] or the next open. **Cost**: no store.
    #[inline]
    pub fn with<R, F>(&mut self, body: F) -> R
    where
        F: for<'b> FnOnce(Lists<'b, T, M>, [List<'b>; L]) -> R,
    {
        let core = &self.core;
        body(
            Lists::new(core),
            core::array::from_fn(|i| List::new(LinkMap::<M>::head(i))),
        )
    }

    /// Frees the nodes that are in no list; returns their number. No handle can own them outside of
    /// [`NodePool::with`].
    ///
    /// **Power loss**: some of them are free; the next open frees the others. **Cost**: one unit
    /// each, and a read of all links.
    pub fn reclaim(&mut self) -> usize {
        self.core.clear_forgotten();
        let walk = |core: &Core<'m, M>| core.walk(size_of::<T>(), T::check);
        let linked = walk(&self.core);
        let reclaimed = linked.and_then(|linked| self.core.sweep(linked, true));
        self.core.fence();
        reclaimed.map_or(0, |a| a.held)
    }

    /// Walks all lists and counts nodes. **Cost**: no store. **Errors**: [`OpenError::Damaged`],
    /// [`OpenError::Invalid`].
    pub fn audit(&mut self) -> Result<Audit, OpenError> {
        let linked = self.core.walk(size_of::<T>(), T::check)?;
        self.core.sweep(linked, false)
    }

    /// The number of nodes, in use or not.
    pub fn capacity(&self) -> usize {
        self.core.geo.nodes
    }

    /// The bytes that a region needs for `nodes` nodes and a record for each of `contexts`
    /// contexts; `usize::MAX` if no pool can be that long.
    pub const fn bytes_for(nodes: usize, contexts: usize) -> usize {
        let stride = const { Stride::new::<M>(size_of::<T>()) };
        Geometry::bytes_for::<M>(L, contexts, nodes, stride)
    }

    /// Returns the region.
    pub fn close(self) -> Region<'m, M> {
        // All padding in it is zero: see `Lists::edit`.
        self.core.map.region
    }
}

// SAFETY: invariants "Sole region" and "Saved bytes have values": operations and loans borrow the
// pool, and it has no other owner; padding is cleared when a loan ends (`EditGuard` in lists.rs).
// All bytes matter: each state that an operation leaves is one that the next open accepts.
unsafe impl<T, const L: usize, M: Model> AtRest for NodePool<'_, T, L, Ram<M>> {
    fn resting<R>(&mut self, f: impl FnOnce(RestingRegion) -> R) -> R {
        let region = &self.core.map.region;
        f(RestingRegion {
            base: region.base(),
            len: region.len(),
            scratch: 0..0,
        })
    }
}
