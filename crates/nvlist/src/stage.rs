//! Staged operations: they take effect with a commit of the caller, such as a transaction or a
//! step.
//!
//! ```text
//!  stage       own links or target; context's number := seq; FENCE; context's record; FENCE
//!  (caller)    commit store of seq; FENCE                        <- the operation happens
//!  committed   links of the neighbours; FENCE; context's record := 0; FENCE
//!  abandoned   context's record := 0; FENCE
//! ```
//!
//! After a cut, recovery asks the resolver for the context's committed number. If it equals the
//! record's number, the operation is finished; if not, it is dropped. `Staged` borrows the lists,
//! so no other operation can change the neighbours in between.

use crate::layout::{Link, OpKind};
use crate::lists::{Brand, Cursor, List, Lists, Node};
use crate::map::Core;
use crate::ops::Plan;
use core::marker::PhantomData;
use nvmem::{CommitNumber, Model, NumberOwner, Persist, WrongOwner, planted};

/// A context that the pool was opened with.
#[derive(Clone, Copy)]
pub struct Context<'b> {
    index: usize,
    owner: NumberOwner,
    _brand: Brand<'b>,
}

/// A sequence number of a context. An operation that is staged with it happens if and only if it is
/// committed.
#[derive(Clone, Copy)]
pub struct StageSeq<'b> {
    context: Context<'b>,
    seq: u32,
}

impl<'b> Context<'b> {
    /// The number that a step or transaction of this context is about to commit: `Commit::number`
    /// of `nv-replay`, `Prepared::seq` of `pmem-tx`.
    ///
    /// On a medium with 16-bit units it has 16 bits. **Errors**: the number is one of another owner
    /// than that which the resolver has returned for this context.
    pub fn stage_seq<'o>(
        self,
        number: impl Into<CommitNumber<'o>>,
    ) -> Result<StageSeq<'b>, WrongOwner> {
        let number = number.into();
        if number.owner() != self.owner && !planted!("nvlist/number-of-any-owner") {
            return Err(WrongOwner);
        }
        Ok(StageSeq {
            context: self,
            seq: number.get(),
        })
    }
}

/// An operation that is stored except for the links of its neighbours. It does not happen if it is
/// dropped.
///
/// Store the number as committed, fence, and call [`Staged::committed`]. The lists are borrowed in
/// between, so no other operation can run: stage late. If other threads use them, do all of it in
/// one critical section. **Power loss**: from here on the number decides. The next open asks the
/// resolver, and finishes or drops the operation.
///
/// ```
/// # use nvlist::{NodePool, nvmem::{InOrder32, Region}};
/// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 64]));
/// # let region = Region::<InOrder32>::new(memory);
/// # fn committed(_context: usize) -> u32 { 0 }
/// # fn commit(_seq: u32) {}
/// // One context. The pool of objects is opened with the same resolver, `committed`.
/// let mut pool = NodePool::<u32, 1>::open_resolved(region, 1, committed)?;
/// pool.with(|mut lists, [queue]| {
///     let context = lists.context(0).ok_or("opened with one")?;
///     let node = lists.alloc(7)?;
///     let seq = 1u32; // Prepared::seq
///     let staged = lists.stage_back(context.stage_seq(seq)?, queue, node);
///     commit(seq); // one store commits the transaction and this operation; then a fence
///     staged.committed();
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a staged operation does not happen when it is dropped"]
pub struct Staged<'a, 'b, M: Model, D, B> {
    guard: Guard<'b, M>,
    plan: Plan,
    done: D,
    returned: B,
    _lists: PhantomData<&'a mut Brand<'b>>,
}

struct Guard<'b, M: Model>(&'b Core<'b, M>);
impl<M: Model> Drop for Guard<'_, M> {
    fn drop(&mut self) {
        self.0.abandon()
    }
}

impl<M: Model, D, B> Staged<'_, '_, M, D, B> {
    /// Finishes the operation after its number was committed. **Cost**: the links of the
    /// neighbours, and one unit to clear the record.
    pub fn committed(self) -> D {
        // SAFETY: invariants "Links are checked" and "One owner": staged by the constructor, and
        // the lists are borrowed since.
        unsafe { self.guard.0.finish(&self.plan) }
        core::mem::forget(self.guard);
        self.done
    }

    /// Drops the operation; its number must not be committed. Returns the node that was to be
    /// linked.
    ///
    /// **Cost**: one unit.
    pub fn abandon(self) -> B {
        drop(self.guard);
        self.returned
    }
}

impl<'b, T: Persist, M: Model> Lists<'b, T, M> {
    /// The context with this index, if the pool was opened with so many.
    pub fn context(&self, index: usize) -> Option<Context<'b>> {
        (index < self.core.geo.contexts).then_some(Context {
            index,
            owner: self.core.context_owner(index),
            _brand: PhantomData,
        })
    }

    /// # Safety
    /// As [`Core::stage`].
    unsafe fn stage<'a, D, B>(
        core: &'b Core<'b, M>,
        number: StageSeq<'b>,
        plan: Plan,
        done: D,
        returned: B,
    ) -> Staged<'a, 'b, M, D, B> {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe { core.stage(&plan, number.context.index, number.seq) }
        Staged {
            guard: Guard(core),
            plan,
            done,
            returned,
            _lists: PhantomData,
        }
    }

    /// # Safety
    /// As [`Core::insert`].
    unsafe fn stage_link<'a>(
        core: &'b Core<'b, M>,
        number: StageSeq<'b>,
        x: Link,
        p: Link,
        n: Link,
    ) -> Staged<'a, 'b, M, (), Node<'b>> {
        let plan = Plan {
            kind: OpKind::Insert,
            x,
            p,
            n,
            p2: 0,
            n2: 0,
        };
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe { Self::stage(core, number, plan, (), Node::new(x)) }
    }

    /// [`Lists::link_front`] as a staged operation. **Cost**: 7 units in all, 8 of 2 bytes.
    pub fn stage_front(
        &mut self,
        number: StageSeq<'b>,
        list: List<'b>,
        node: Node<'b>,
    ) -> Staged<'_, 'b, M, (), Node<'b>> {
        // SAFETY: invariants "Links are checked" and "One owner": the head and the link after it;
        // the handle owned a node in no list.
        unsafe {
            let n = self.core.next(list.head);
            Self::stage_link(self.core, number, node.at, list.head, n)
        }
    }

    /// [`Lists::link_back`] as a staged operation. See [`Lists::stage_front`].
    pub fn stage_back(
        &mut self,
        number: StageSeq<'b>,
        list: List<'b>,
        node: Node<'b>,
    ) -> Staged<'_, 'b, M, (), Node<'b>> {
        self.stage_before_first(number, list, node, |_| false)
    }

    /// [`Lists::link_before_first`] as a staged operation. See [`Lists::stage_front`].
    pub fn stage_before_first(
        &mut self,
        number: StageSeq<'b>,
        list: List<'b>,
        node: Node<'b>,
        before: impl FnMut(&T) -> bool,
    ) -> Staged<'_, 'b, M, (), Node<'b>> {
        let n = self.find_first(list, before);
        // SAFETY: invariants "Links are checked" and "One owner": a link of the list, and the one
        // before it; the handle owned a node in no list.
        unsafe {
            let p = self.core.prev(n);
            Self::stage_link(self.core, number, node.at, p, n)
        }
    }
}

impl<'a, 'b, T: Persist, M: Model> Cursor<'a, 'b, T, M> {
    /// [`Cursor::link_before`] as a staged operation. See [`Lists::stage_front`].
    pub fn stage_before(
        self,
        number: StageSeq<'b>,
        node: Node<'b>,
    ) -> Staged<'a, 'b, M, (), Node<'b>> {
        // SAFETY: invariants "Links are checked" and "One owner": a link and its neighbour; the
        // handle owned a node in no list.
        unsafe {
            let p = self.core().prev(self.at);
            Lists::<T, M>::stage_link(self.core(), number, node.at, p, self.at)
        }
    }

    /// [`Cursor::link_after`] as a staged operation. See [`Lists::stage_front`].
    pub fn stage_after(
        self,
        number: StageSeq<'b>,
        node: Node<'b>,
    ) -> Staged<'a, 'b, M, (), Node<'b>> {
        // SAFETY: invariants "Links are checked" and "One owner": a link and the one behind it; the
        // handle owned a node in no list.
        unsafe {
            let n = self.core().next(self.at);
            Lists::<T, M>::stage_link(self.core(), number, node.at, self.at, n)
        }
    }

    /// [`Cursor::unlink`] as a staged operation. **Cost**: 6 units in all.
    pub fn stage_unlink(self, number: StageSeq<'b>) -> Option<Staged<'a, 'b, M, Node<'b>, ()>> {
        if !self.is_at_node() {
            return None;
        }
        let (core, x) = (self.core(), self.at);
        // SAFETY: invariants "Links are checked" and "One owner": a node in a list, between its
        // neighbours.
        unsafe {
            let (p, n) = core.links(x);
            let plan = Plan {
                kind: OpKind::Remove,
                x,
                p,
                n,
                p2: 0,
                n2: 0,
            };
            Some(Lists::<T, M>::stage(core, number, plan, Node::new(x), ()))
        }
    }

    /// [`Cursor::replace`] as a staged operation. See [`Lists::stage_front`]. **Errors**: those of
    /// [`Cursor::replace`].
    #[allow(clippy::type_complexity)]
    pub fn stage_replace(
        self,
        number: StageSeq<'b>,
        node: Node<'b>,
    ) -> Result<Staged<'a, 'b, M, Node<'b>, Node<'b>>, Node<'b>> {
        if !self.is_at_node() {
            return Err(node);
        }
        let (core, x) = (self.core(), node.at);
        // SAFETY: invariants "Links are checked" and "One owner": a node in a list, and the handle
        // owned one in none.
        unsafe {
            let (p, n) = core.links(self.at);
            let plan = Plan {
                kind: OpKind::Replace,
                x,
                p,
                n,
                p2: 0,
                n2: 0,
            };
            let old = Node::new(self.at);
            Ok(Lists::<T, M>::stage(core, number, plan, old, node))
        }
    }

    /// [`Cursor::shift_front`] as a staged operation. `None` if the node would not move. **Cost**:
    /// 10 units in all, 12 of 2 bytes.
    pub fn stage_shift_front(
        self,
        number: StageSeq<'b>,
        to: List<'b>,
    ) -> Option<Staged<'a, 'b, M, (), ()>> {
        // SAFETY: invariant "Links are checked": a list head is a valid link.
        let n = unsafe { self.core().next(to.head) };
        self.stage_shift(number, n)
    }

    /// [`Cursor::shift_back`] as a staged operation. See [`Cursor::stage_shift_front`].
    pub fn stage_shift_back(
        self,
        number: StageSeq<'b>,
        to: List<'b>,
    ) -> Option<Staged<'a, 'b, M, (), ()>> {
        self.stage_shift(number, to.head)
    }

    /// [`Cursor::shift_before_first`] as a staged operation. See [`Cursor::stage_shift_front`].
    pub fn stage_shift_before_first(
        self,
        number: StageSeq<'b>,
        to: List<'b>,
        before: impl FnMut(&T) -> bool,
    ) -> Option<Staged<'a, 'b, M, (), ()>> {
        let n = self.lists.find_first(to, before);
        self.stage_shift(number, n)
    }

    fn stage_shift(self, number: StageSeq<'b>, n2: Link) -> Option<Staged<'a, 'b, M, (), ()>> {
        if !self.is_at_node() {
            return None;
        }
        let (p2, n2) = self.target(n2)?;
        let (core, x) = (self.core(), self.at);
        // SAFETY: invariants "Links are checked" and "One owner": a node in a list; the two
        // neighbours that it goes between, and neither is the node.
        unsafe {
            let (p, n) = core.links(x);
            let plan = Plan {
                kind: OpKind::MoveA,
                x,
                p,
                n,
                p2,
                n2,
            };
            Some(Lists::<T, M>::stage(core, number, plan, (), ()))
        }
    }
}
