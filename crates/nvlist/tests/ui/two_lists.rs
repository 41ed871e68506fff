//! A node goes into one list.

use nvlist::NodePool;

fn twice(pool: &mut NodePool<'_, u32, 2>) {
    pool.with(|mut lists, [a, b]| {
        if let Ok(node) = lists.alloc(1) {
            lists.link_back(a, node);
            lists.link_back(b, node);
        }
    })
}

fn a_clone(pool: &mut NodePool<'_, u32, 2>) {
    pool.with(|mut lists, [a, b]| {
        if let Ok(node) = lists.alloc(1) {
            lists.link_back(a, node.clone());
            lists.link_back(b, node);
        }
    })
}

fn main() {}
