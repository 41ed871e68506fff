//! Nodes, lists and cursors cannot leave their call of `with`.

use nvlist::{List, NodePool};

fn returned(pool: &mut NodePool<'_, u32, 1>) {
    let node = pool.with(|mut lists, _| lists.alloc(1).ok());
    drop(node);
}

fn captured(pool: &mut NodePool<'_, u32, 1>) {
    let mut kept = None;
    pool.with(|mut lists, [a]| kept = lists.unlink_front(a));
}

fn a_list(pool: &mut NodePool<'_, u32, 1>) -> Option<List<'static>> {
    let mut kept = None;
    pool.with(|_, [a]| kept = Some(a));
    kept
}

fn the_pool_inside(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        let node = lists.unlink_front(a);
        pool.reclaim();
        node.is_some()
    });
}

fn main() {}
