//! A node that was released or linked can no longer be read or changed by its handle.

use nvlist::NodePool;

fn returned(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        if let Ok(node) = lists.alloc(1) {
            lists.release(node);
            lists.link_back(a, node);
        }
    })
}

fn linked(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        if let Ok(mut node) = lists.alloc(1) {
            lists.link_back(a, node);
            lists.edit(&mut node, |v| *v = 2);
        }
    })
}

fn returned_twice(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        if let Some(node) = lists.unlink_front(a) {
            lists.release(node);
            lists.release(node);
        }
    })
}

fn a_content_of_a_removed_node(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        let first = lists.front(a);
        lists.pop_front(a);
        first.copied()
    });
}

fn main() {}
