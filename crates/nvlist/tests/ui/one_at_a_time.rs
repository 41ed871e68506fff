//! While a cursor or a reference to a content exists, nothing else changes the lists.

use nvlist::NodePool;

fn two_cursors(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        let mut c = lists.cursor_front(a);
        let mut d = lists.cursor_back(a);
        c.remove();
        d.remove();
    })
}

fn changed_while_iterated(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        for _ in lists.iter(a) {
            lists.pop_front(a);
        }
    })
}

fn changed_while_staged(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        if let (Some(context), Ok(node)) = (lists.context(0), lists.alloc(1)) {
            let staged = lists.stage_back(context.stage_seq(1u32).unwrap(), a, node);
            lists.pop_front(a);
            staged.committed();
        }
    })
}

fn a_content_in_a_list_changed(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|lists, [a]| {
        if let Some(v) = lists.front(a) {
            *v = 2;
        }
    })
}

fn main() {}
