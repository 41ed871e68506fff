//! The lists of an open pool, their nodes, and cursors: positions in lists, to read, insert,
//! remove, replace and move nodes there.

use crate::error::Full;
use crate::layout::{LINKS, Link};
use crate::map::{Core, LinkMap};
use core::marker::PhantomData;
use nvmem::{InOrder32, Model, Persist, mapped};

/// Makes `'b` invariant: the brands of two pools never unify. The alternative was a session number
/// in each handle, compared at each use: four more instructions for each operation, an error that
/// no program wants to handle, and handles that survive the lists.
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

// INVARIANT "In one thread": lists stay in the thread that made them: `Send` and `Sync` have a
// bound that no type meets.
// Noticed by: tests/ui/threads.rs.

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

// INVARIANT "One owner": a node is in one list, or held by one `Node`, or free. `Node` is not
// `Clone`, is given away, and carries a brand.
// Noticed by: compile-fail tests in tests/ui.

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
/// in RAM or stored. It owns nothing and says nothing about the node that is there now. It exists
/// because a kernel that ends a wait wants the node of the waiter at once.
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
    /// of 2 bytes. With 2-byte units one more if the last operation unlinked this node.
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

    /// Links a node into a sorted list, after the nodes with the same key: for a delay list or a
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
    /// **Errors**: as there.
    #[inline]
    pub fn push_back(&mut self, list: List<'b>, value: T) -> Result<ListPos, Full<T>> {
        let at = self.alloc_filled(value)?;
        self.link_back(list, Node::new(at));
        Ok(ListPos(at as u16))
    }

    /// Inserts a new node with this content into a sorted list. See [`Lists::link_sorted`].
    /// **Errors**: those of [`Lists::push_front`].
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

    /// Links a node before this position; at the end, after the last node.
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

    /// Links a node after this position; at the end, before the first node. See
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
    /// **Errors**: as there.
    #[inline]
    pub fn insert_before(&mut self, value: T) -> Result<ListPos, Full<T>> {
        let at = self.lists.alloc_filled(value)?;
        self.link_before(Node::new(at));
        Ok(ListPos(at as u16))
    }

    /// Inserts a new node with this content after this position. See [`Lists::push_front`].
    /// **Errors**: as there.
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

    /// Replaces this node by another and returns this one.
    ///
    /// This changes a content in a list as a whole. **Power loss**: the old node is there, or the
    /// new one. **Cost**: 4 units, 5 of 2 bytes. One more if the last operation unlinked the new
    /// node. **Errors**: at the end, where no node is, the new one comes back.
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

    /// Moves the node into a sorted list, after the nodes with the same key. See
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
