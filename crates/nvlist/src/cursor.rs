//! Cursors: positions in lists, to read, insert, remove, replace and move nodes there.

use crate::error::Full;
use crate::layout::Link;
use crate::lists::{List, ListPos, Lists, Node};
use crate::map::LinkMap;
use crate::state::Core;
use core::marker::PhantomData;
use nvmem::{InOrder32, Model, Persist};

/// A position in a list: at a node, or at the list's end, which is also before its first node.
///
/// It borrows the lists, so nothing else changes them while it exists.
pub struct Cursor<'a, 'b, T, M = InOrder32> {
    pub(crate) lists: &'a mut Lists<'b, T, M>,
    pub(crate) at: Link,
}

impl<'a, 'b, T: Persist, M: Model> Cursor<'a, 'b, T, M> {
    pub(crate) fn new(lists: &'a mut Lists<'b, T, M>, at: Link) -> Self {
        Cursor { lists, at }
    }

    #[inline]
    pub(crate) fn core(&self) -> &'b Core<'b, M> {
        self.lists.core
    }

    /// Whether it is at a node, and not at the end.
    #[inline]
    pub fn is_at_node(&self) -> bool {
        // List heads lie before all nodes.
        self.at >= self.core().geo.first
    }

    /// The content of the node. `None` at the end.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: invariants "Links are checked" and "Checked before it is a value": a node in a
        // list; the lists are borrowed.
        self.is_at_node()
            .then(|| unsafe { self.lists.value(self.at) })
    }

    /// The position of the node, to find it again with [`Lists::seek`]. `None` at the end.
    pub fn position(&self) -> Option<ListPos> {
        self.is_at_node().then_some(ListPos(self.at as u16))
    }

    /// Moves to the next node or to the end; from the end to the first node. **Cost**: one load.
    #[inline]
    pub fn move_next(&mut self) {
        // SAFETY: invariant "Links are checked": the cursor holds a valid link.
        self.at = unsafe { self.core().next(self.at) };
    }

    /// Moves to the previous node or to the end; from the end to the last node. **Cost**: one load.
    #[inline]
    pub fn move_prev(&mut self) {
        // SAFETY: invariant "Links are checked": the cursor holds a valid link.
        self.at = unsafe { self.core().prev(self.at) };
    }

    /// Links a node before this position; at the end, behind the last node.
    ///
    /// **Power loss**: the node is linked, or free after the next open. **Cost**: 4 units, 5 of 2
    /// bytes.
    #[inline]
    pub fn link_before(&mut self, node: Node<'b>) {
        // SAFETY: invariants "Links are checked" and "One owner": the link before is its neighbour;
        // the handle owned a node in no list.
        unsafe {
            let p = self.core().prev(self.at);
            self.core().insert(node.at, p, self.at)
        }
    }

    /// Links a node behind this position; at the end, before the first node. See
    /// [`Cursor::link_before`].
    #[inline]
    pub fn link_after(&mut self, node: Node<'b>) {
        // SAFETY: invariants "Links are checked" and "One owner": the link behind is its neighbour;
        // the handle owned a node in no list.
        unsafe {
            let n = self.core().next(self.at);
            self.core().insert(node.at, self.at, n)
        }
    }

    /// Inserts a new node with this content before this position. See [`Lists::push_front`].
    #[inline]
    pub fn insert_before(&mut self, value: T) -> Result<ListPos, Full<T>> {
        let at = self.lists.alloc_filled(value)?;
        self.link_before(Node::new(at));
        Ok(ListPos(at as u16))
    }

    /// Inserts a new node with this content behind this position. See [`Lists::push_front`].
    #[inline]
    pub fn insert_after(&mut self, value: T) -> Result<ListPos, Full<T>> {
        let at = self.lists.alloc_filled(value)?;
        self.link_after(Node::new(at));
        Ok(ListPos(at as u16))
    }

    /// Takes the node out of its list; the cursor moves to the next one. `None` at the end.
    ///
    /// **Power loss**: the node is in the list, or free after the next open. **Cost**: 3 units.
    #[inline]
    pub fn unlink(&mut self) -> Option<Node<'b>> {
        if !self.is_at_node() {
            return None;
        }
        let x = self.at;
        // SAFETY: invariants "Links are checked" and "One owner": a node in a list, between its
        // neighbours.
        unsafe {
            let (p, n) = self.core().links(x);
            self.at = n;
            self.core().remove(x, p, n)
        }
        Some(Node::new(x))
    }

    /// Removes the node, frees it and returns its content; the cursor moves to the next node.
    /// `None` at the end.
    ///
    /// **Power loss**: the content is in the list, or it is gone and its node is free. **Cost**: 4
    /// units.
    #[inline]
    pub fn remove(&mut self) -> Option<T> {
        let node = self.unlink()?;
        Some(self.lists.release(node))
    }

    /// Replaces this node by another and returns this one. At the end the new node comes back as
    /// the error.
    ///
    /// This changes a content in a list as a whole. **Power loss**: the old node is there, or the
    /// new one. **Cost**: 4 units, 5 of 2 bytes.
    #[inline]
    pub fn replace(&mut self, node: Node<'b>) -> Result<Node<'b>, Node<'b>> {
        if !self.is_at_node() {
            return Err(node);
        }
        let old = core::mem::replace(&mut self.at, node.at);
        // SAFETY: invariants "Links are checked" and "One owner": a node in a list, and the handle
        // owned one in none.
        unsafe {
            let (p, n) = self.core().links(old);
            self.core().replace(node.at, p, n)
        }
        Ok(Node::new(old))
    }

    /// Moves the node to the beginning of this list or another; the cursor moves to the next node
    /// here. Does nothing at the end.
    ///
    /// **Power loss**: the node is at its old position or at the new one. **Cost**: 7 units, 9 of 2
    /// bytes; none if it does not move.
    #[inline]
    pub fn shift_front(&mut self, to: List<'b>) {
        // SAFETY: invariant "Links are checked": a list head is a valid link.
        let n = unsafe { self.core().next(to.head) };
        self.shift(n)
    }

    /// Moves the node to the end of a list. See [`Cursor::shift_front`].
    #[inline]
    pub fn shift_back(&mut self, to: List<'b>) {
        self.shift(to.head)
    }

    /// Moves the node before the first one for which `before` is true, or to the end. See
    /// [`Cursor::shift_front`].
    #[inline]
    pub fn shift_before_first(&mut self, to: List<'b>, before: impl FnMut(&T) -> bool) {
        let n = self.lists.find_first(to, before);
        self.shift(n)
    }

    /// Moves the node into a sorted list, behind the nodes with the same key. See
    /// [`Cursor::shift_front`].
    #[inline]
    pub fn shift_sorted<K: Ord>(&mut self, to: List<'b>, mut key: impl FnMut(&T) -> K) {
        if let Some(mine) = self.get().map(&mut key) {
            self.shift_before_first(to, |other| key(other) > mine)
        }
    }

    /// The new neighbours of a node that moves before `n2`; `None` if it is already there.
    #[inline]
    pub(crate) fn target(&self, n2: Link) -> Option<(Link, Link)> {
        if n2 == self.at {
            return None;
        }
        // SAFETY: invariant "Links are checked": the cursor holds a valid link.
        let p2 = unsafe { self.core().prev(n2) };
        (p2 != self.at).then_some((p2, n2))
    }

    #[inline]
    fn shift(&mut self, n2: Link) {
        if !self.is_at_node() {
            return;
        }
        let x = self.at;
        let to = self.target(n2);
        // SAFETY: invariants "Links are checked" and "One owner": a node in a list; the two
        // neighbours that it goes between, and neither is the node.
        unsafe {
            let (p, n) = self.core().links(x);
            self.at = n;
            if let Some(to) = to {
                self.core().shift(x, (p, n), to)
            }
        }
    }
}

/// The contents of a list, in order.
pub struct Iter<'a, 'b, T, M = InOrder32> {
    lists: &'a Lists<'b, T, M>,
    /// The next node from the front and the next from the back; the head when all were returned.
    front: Link,
    back: Link,
    head: Link,
    _list: PhantomData<List<'b>>,
}

impl<'a, 'b, T: Persist, M: Model> Iter<'a, 'b, T, M> {
    pub(crate) fn new(lists: &'a Lists<'b, T, M>, list: List<'b>) -> Self {
        // SAFETY: invariant "Links are checked": a list head is a valid link.
        let (back, front) = unsafe { lists.core.links(list.head) };
        Iter {
            lists,
            front,
            back,
            head: list.head,
            _list: PhantomData,
        }
    }

    fn step(
        &mut self,
        at: Link,
        next: unsafe fn(&LinkMap<'b, M>, Link) -> Link,
    ) -> (Link, Option<&'a T>) {
        if at == self.head {
            return (at, None);
        }
        // SAFETY: invariants "Links are checked" and "Checked before it is a value": a node in a
        // list; the lists are borrowed.
        let (value, next) = unsafe { (self.lists.value(at), next(self.lists.core, at)) };
        if self.front == self.back {
            (self.front, self.back) = (self.head, self.head);
            return (self.head, Some(value));
        }
        (next, Some(value))
    }
}

impl<'a, T: Persist, M: Model> Iterator for Iter<'a, '_, T, M> {
    type Item = &'a T;
    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let (next, value) = self.step(self.front, LinkMap::next);
        self.front = next;
        value
    }
}

impl<'a, T: Persist, M: Model> DoubleEndedIterator for Iter<'a, '_, T, M> {
    #[inline]
    fn next_back(&mut self) -> Option<&'a T> {
        let (next, value) = self.step(self.back, LinkMap::prev);
        self.back = next;
        value
    }
}
impl<T: Persist, M: Model> core::iter::FusedIterator for Iter<'_, '_, T, M> {}
