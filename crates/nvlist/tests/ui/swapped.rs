//! Nodes and lists of one pool cannot be exchanged for those of another.

use nvlist::NodePool;

fn swapped(one: &mut NodePool<'_, u32, 1>, two: &mut NodePool<'_, u32, 1>) {
    one.with(|mut mine, [a]| {
        two.with(|mut others, [b]| {
            std::mem::swap(&mut mine, &mut others);
            mine.push_back(a, 1).ok();
            others.push_back(b, 1).ok();
        })
    })
}

fn cursors(one: &mut NodePool<'_, u32, 1>, two: &mut NodePool<'_, u32, 1>) {
    one.with(|mut mine, [a]| {
        two.with(|mut others, [b]| {
            let mut here = mine.cursor_front(a);
            let mut there = others.cursor_front(b);
            std::mem::swap(&mut here, &mut there);
        })
    })
}

fn numbers(one: &mut NodePool<'_, u32, 1>, two: &mut NodePool<'_, u32, 1>) {
    one.with(|mut mine, [a]| {
        two.with(|others, _| {
            if let (Some(context), Ok(node)) = (others.context(3), mine.alloc(1)) {
                mine.stage_back(context.stage_seq(1u32).unwrap(), a, node).committed();
            }
        })
    })
}

fn main() {}
