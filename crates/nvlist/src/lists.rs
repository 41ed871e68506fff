//! The lists of an open pool, and their nodes.

use crate::cursor::{Cursor, Iter};
use crate::error::Full;
use crate::layout::{LINKS, Link};
use crate::state::Core;
use core::marker::PhantomData;
use nvmem::{InOrder32, Model, Persist, mapped};

/// Makes `'b` invariant: the brands of two pools never unify.
pub(crate) type Brand<'b> = PhantomData<fn(&'b ()) -> &'b ()>;

/// Access to the lists of one pool, inside of [`NodePool::with`](crate::NodePool::with).
///
/// There is one value for each call and no constructor: its owner may change the lists, and nothing
/// else does at the same time.
pub struct Lists<'b, T, M = InOrder32> {
    pub(crate) core: &'b Core<'b, M>,
    _t: PhantomData<fn(T) -> T>,
    _brand: Brand<'b>,
}

/// A bound that no type meets. Types with it stay in one thread, and the compiler reports that
/// once.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "lists stay in the thread that called `with`",
    label = "the lists would go to another thread",
    note = "to use lists from several threads or interrupts, put the pool into `nvlist::Shared`"
)]
pub trait InOneThread {}

// SAFETY: invariant "In one thread": the bound never holds. It replaces what the compiler would
// derive from the fields.
unsafe impl<T, M> Send for Lists<'_, T, M> where Self: InOneThread {}
// SAFETY: invariant "In one thread": the bound never holds.
unsafe impl<T, M> Sync for Lists<'_, T, M> where Self: InOneThread {}

/// One of the lists.
#[derive(Clone, Copy)]
pub struct List<'b> {
    pub(crate) head: Link,
    _brand: Brand<'b>,
}

impl List<'_> {
    pub(crate) fn new(head: Link) -> Self {
        List {
            head,
            _brand: PhantomData,
        }
    }
}

/// A node that is in no list, and the right to link it.
///
/// It is neither `Copy` nor `Clone`, and every operation that links or releases the node consumes
/// it. So a node cannot be in two lists, nor be used after its release. There is no `Drop`: a
/// dropped node stays in use until [`NodePool::reclaim`](crate::NodePool::reclaim) or the next
/// open.
#[must_use = "a dropped node is lost until the pool is opened again: link it, or release it"]
pub struct Node<'b> {
    pub(crate) at: Link,
    _brand: Brand<'b>,
}

impl Node<'_> {
    pub(crate) fn new(at: Link) -> Self {
        Node {
            at,
            _brand: PhantomData,
        }
    }
}

/// Guard of `edit`: ends the loan and writes zeros to padding, which a whole assignment leaves
/// uninitialised.
struct EditGuard<T: Persist>(*mut T);
impl<T: Persist> Drop for EditGuard<T> {
    fn drop(&mut self) {
        // SAFETY: invariant "Padding is not read": a content whose loan has ended.
        unsafe { T::clear_padding(self.0.cast()) }
        mapped::end_loan(self.0.cast(), size_of::<T>());
    }
}

/// The position of a node, to find it again in constant time with [`Lists::seek`]. It may be kept
/// in RAM or stored. It says nothing about the node that is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ListPos(pub u16);

impl<'b, T: Persist, M: Model> Lists<'b, T, M> {
    pub(crate) fn new(core: &'b Core<'b, M>) -> Self {
        Lists {
            core,
            _t: PhantomData,
            _brand: PhantomData,
        }
    }

    fn content(&self, at: Link) -> *mut T {
        self.core.address(at).wrapping_add(LINKS).cast()
    }

    /// # Safety
    /// `at` is a node whose content is valid, and stays so while the reference lives.
    #[inline]
    pub(crate) unsafe fn value(&self, at: Link) -> &T {
        let p = self.content(at);
        mapped::will_read(p.cast(), size_of::<T>());
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe { &*p }
    }

    /// Writes a content, with its padding as zeros.
    #[inline]
    fn fill(&self, at: Link, value: T) {
        let p = self.content(at);
        mapped::lend(p.cast(), size_of::<T>());
        // SAFETY: invariant "One owner": the content of a node that is free, aligned and large
        // enough.
        unsafe {
            p.write(value);
            T::clear_padding(p.cast());
        }
        mapped::end_loan(p.cast(), size_of::<T>());
    }

    #[inline]
    pub(crate) fn alloc_filled(&mut self, value: T) -> Result<Link, Full<T>> {
        self.core.clear_forgotten();
        match self.core.find_free() {
            Some(at) => {
                self.fill(at, value);
                Ok(at)
            }
            None => Err(Full(value)),
        }
    }

    /// Allocates a node with this content, in no list yet.
    ///
    /// **Power loss**: the next open frees it. **Cost**: the content and one unit; one load for
    /// each node that the search for a free one passes. **Errors**: [`Full`], with the content
    /// back.
    #[inline]
    pub fn alloc(&mut self, value: T) -> Result<Node<'b>, Full<T>> {
        let at = self.alloc_filled(value)?;
        // SAFETY: invariant "One owner": free until now.
        unsafe { self.core.mark_held(at) }
        Ok(Node::new(at))
    }

    /// Frees a node and returns its content.
    ///
    /// **Power loss**: the node is free after the next open, in any case. **Cost**: one unit.
    #[inline]
    pub fn release(&mut self, node: Node<'b>) -> T {
        let p = self.content(node.at);
        mapped::will_read(p.cast(), size_of::<T>());
        // SAFETY: invariant "One owner": the handle owned a node with a valid content, and is gone
        // now.
        unsafe {
            let value = p.read();
            self.core.release(node.at);
            value
        }
    }

    /// The content of a node that is in no list.
    #[inline]
    pub fn get<'a>(&'a self, node: &'a Node<'b>) -> &'a T {
        // SAFETY: invariant "One owner": the handle owns a node with a valid content, and is
        // borrowed.
        unsafe { self.value(node.at) }
    }

    /// Changes the content of a node that is in no list. (To change one in a list, use
    /// [`Cursor::replace`].)
    ///
    /// **Power loss**: the next open frees the node, and its content is lost. **Cost**: the stores
    /// of `change`.
    #[inline]
    pub fn edit<R>(&mut self, node: &mut Node<'b>, change: impl FnOnce(&mut T) -> R) -> R {
        let p = self.content(node.at);
        mapped::lend(p.cast(), size_of::<T>());
        // Runs also if `change` unwinds.
        let _end = EditGuard(p);
        // SAFETY: invariant "One owner": the handle owns a node with a valid content, and is
        // borrowed mutably.
        change(unsafe { &mut *p })
    }

    /// The position of a node, to find it again when it is in a list.
    pub fn position(&self, node: &Node<'b>) -> ListPos {
        ListPos(node.at as u16)
    }

    /// Links a node at the beginning of a list.
    ///
    /// **Power loss**: the node is in the list, or free after the next open. **Cost**: 4 units, 5
    /// of 2 bytes.
    #[inline]
    pub fn link_front(&mut self, list: List<'b>, node: Node<'b>) {
        // SAFETY: invariants "Links are checked" and "One owner": the head and the link after it
        // are neighbours; the handle owned a node in no list.
        unsafe {
            let n = self.core.next(list.head);
            self.core.insert(node.at, list.head, n)
        }
    }

    /// Links a node at the end of a list. See [`Lists::link_front`].
    #[inline]
    pub fn link_back(&mut self, list: List<'b>, node: Node<'b>) {
        // SAFETY: invariants "Links are checked" and "One owner": the link before the head and the
        // head are neighbours; the handle owned a node in no list.
        unsafe {
            let p = self.core.prev(list.head);
            self.core.insert(node.at, p, list.head)
        }
    }

    /// Links a node before the first one for which `before` is true, or at the end. See
    /// [`Lists::link_front`].
    #[inline]
    pub fn link_before_first(
        &mut self,
        list: List<'b>,
        node: Node<'b>,
        before: impl FnMut(&T) -> bool,
    ) {
        let n = self.find_first(list, before);
        // SAFETY: invariants "Links are checked" and "One owner": `n` is a link of the list, and
        // the one before is its neighbour; the handle owned a node in no list.
        unsafe {
            let p = self.core.prev(n);
            self.core.insert(node.at, p, n)
        }
    }

    /// Links a node into a sorted list, behind the nodes with the same key: for a delay list or a
    /// list by priority. See [`Lists::link_front`].
    #[inline]
    pub fn link_sorted<K: Ord>(
        &mut self,
        list: List<'b>,
        node: Node<'b>,
        mut key: impl FnMut(&T) -> K,
    ) {
        let mine = key(self.get(&node));
        self.link_before_first(list, node, |other| key(other) > mine)
    }

    /// The link of the first node for which `found` is true, or of the head.
    #[inline]
    pub(crate) fn find_first(&self, list: List<'b>, mut found: impl FnMut(&T) -> bool) -> Link {
        // SAFETY: invariant "Links are checked" and "Checked before it is a value": links of a
        // list, one after the other; contents of nodes in lists were checked, or written here.
        unsafe {
            let mut at = self.core.next(list.head);
            while at != list.head && !found(self.value(at)) {
                at = self.core.next(at);
            }
            at
        }
    }

    /// Inserts a new node with this content at the beginning of a list.
    ///
    /// **Power loss**: the content is in the list, or it is not and the node is free. **Cost**: the
    /// content and 4 units, 5 of 2 bytes. **Errors**: [`Full`], with the content back.
    #[inline]
    pub fn push_front(&mut self, list: List<'b>, value: T) -> Result<ListPos, Full<T>> {
        let at = self.alloc_filled(value)?;
        self.link_front(list, Node::new(at));
        Ok(ListPos(at as u16))
    }

    /// Inserts a new node with this content at the end of a list. See [`Lists::push_front`].
    #[inline]
    pub fn push_back(&mut self, list: List<'b>, value: T) -> Result<ListPos, Full<T>> {
        let at = self.alloc_filled(value)?;
        self.link_back(list, Node::new(at));
        Ok(ListPos(at as u16))
    }

    /// Inserts a new node with this content into a sorted list. See [`Lists::link_sorted`].
    #[inline]
    pub fn push_sorted<K: Ord>(
        &mut self,
        list: List<'b>,
        value: T,
        key: impl FnMut(&T) -> K,
    ) -> Result<ListPos, Full<T>> {
        let at = self.alloc_filled(value)?;
        self.link_sorted(list, Node::new(at), key);
        Ok(ListPos(at as u16))
    }

    /// Takes the first node out of a list.
    ///
    /// **Power loss**: the node is in the list, or free after the next open. **Cost**: 3 units.
    #[inline]
    pub fn unlink_front(&mut self, list: List<'b>) -> Option<Node<'b>> {
        self.cursor_front(list).unlink()
    }

    /// Takes the last node out of a list. See [`Lists::unlink_front`].
    #[inline]
    pub fn unlink_back(&mut self, list: List<'b>) -> Option<Node<'b>> {
        self.cursor_back(list).unlink()
    }

    /// Removes the first node of a list, frees it and returns its content.
    ///
    /// **Power loss**: the content is in the list, or it is gone and its node is free. **Cost**: 4
    /// units.
    #[inline]
    pub fn pop_front(&mut self, list: List<'b>) -> Option<T> {
        let node = self.unlink_front(list)?;
        Some(self.release(node))
    }

    /// Removes the last node of a list, frees it and returns its content. See [`Lists::pop_front`].
    #[inline]
    pub fn pop_back(&mut self, list: List<'b>) -> Option<T> {
        let node = self.unlink_back(list)?;
        Some(self.release(node))
    }

    /// The first content of a list.
    pub fn front(&self, list: List<'b>) -> Option<&T> {
        self.iter(list).next()
    }

    /// The last content of a list.
    pub fn back(&self, list: List<'b>) -> Option<&T> {
        self.iter(list).next_back()
    }

    /// Whether a list has no node.
    pub fn is_empty(&self, list: List<'b>) -> bool {
        // SAFETY: invariant "Links are checked": a list head is a valid link.
        unsafe { self.core.next(list.head) == list.head }
    }

    /// The contents of a list, from either end. **Cost**: one load for each.
    pub fn iter(&self, list: List<'b>) -> Iter<'_, 'b, T, M> {
        Iter::new(self, list)
    }

    /// A cursor at the first node of a list.
    #[inline]
    pub fn cursor_front(&mut self, list: List<'b>) -> Cursor<'_, 'b, T, M> {
        // SAFETY: invariant "Links are checked": a list head is a valid link.
        let at = unsafe { self.core.next(list.head) };
        Cursor::new(self, at)
    }

    /// A cursor at the last node of a list.
    #[inline]
    pub fn cursor_back(&mut self, list: List<'b>) -> Cursor<'_, 'b, T, M> {
        // SAFETY: invariant "Links are checked": a list head is a valid link.
        let at = unsafe { self.core.prev(list.head) };
        Cursor::new(self, at)
    }

    /// A cursor at the first node for which `found` is true.
    pub fn find(
        &mut self,
        list: List<'b>,
        found: impl FnMut(&T) -> bool,
    ) -> Option<Cursor<'_, 'b, T, M>> {
        let at = self.find_first(list, found);
        (at != list.head).then(|| Cursor::new(self, at))
    }

    /// A cursor at the node of this position, if it is in a list and `same` accepts its content.
    /// Positions are reused, so `same` must tell whether it is still the same entry.
    ///
    /// **Cost**: constant, no store.
    pub fn seek(
        &mut self,
        spot: ListPos,
        same: impl FnOnce(&T) -> bool,
    ) -> Option<Cursor<'_, 'b, T, M>> {
        let at = Link::from(spot.0);
        if !self.core.is_node(at) || !self.core.is_linked(at) {
            return None;
        }
        // SAFETY: invariants "Links are checked" and "Checked before it is a value": it is in a
        // list, and nothing changes it while `same` reads.
        same(unsafe { self.value(at) }).then(|| Cursor::new(self, at))
    }
}
