//! A closure that searches a list or edits a content cannot change the lists, and cannot keep
//! references.

use nvlist::NodePool;

fn removed_while_it_is_looked_at(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        lists.find(a, |v| lists.pop_front(a) == Some(*v));
    })
}

fn removed_while_it_is_sorted(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        lists.push_sorted(a, 1, |v| lists.pop_front(a).unwrap_or(*v)).ok();
    })
}

fn released_while_it_is_edited(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, _| {
        if let Ok(mut node) = lists.alloc(1) {
            lists.edit(&mut node, |v| *v = lists.release(node));
        }
    })
}

fn kept_from_an_edit(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, _| {
        if let Ok(mut node) = lists.alloc(1) {
            let kept = lists.edit(&mut node, |v| v);
            *kept = 2;
        }
    })
}

fn kept_from_a_seek(pool: &mut NodePool<'_, u32, 1>, spot: nvlist::ListPos) {
    pool.with(|mut lists, _| {
        let mut kept = None;
        lists.seek(spot, |v| {
            kept = Some(v);
            true
        });
    })
}

fn main() {}
