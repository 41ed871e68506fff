//! A node that is dropped, and an operation that does not happen.
#![deny(unused_must_use)]

use nvlist::NodePool;

fn dropped(pool: &mut NodePool<'_, u32, 1>) {
    pool.with(|mut lists, [a]| {
        if let (Some(context), Ok(node)) = (lists.context(0), lists.alloc(1)) {
            lists.stage_back(context.stage_seq(1u32).unwrap(), a, node);
        }
        if let Ok(node) = lists.alloc(1) {
            lists.link_back(a, node);
        }
        let Ok(mut n) = lists.alloc(2) else { return };
        lists.edit(&mut n, |v| *v += 1);
        lists.cursor_front(a).replace(n);
    })
}

fn main() {}
