//! Nodes, lists and cursors of one pool are refused by another, also by one of the same type.

use nvlist::NodePool;

type Pool<'m> = NodePool<'m, u32, 1>;

fn a_node(p: &mut Pool<'_>, q: &mut Pool<'_>) {
    p.with(|mut lists, _| {
        q.with(|mut others, [b]| {
            if let Ok(node) = lists.alloc(1) {
                others.link_back(b, node);
            }
        })
    })
}

fn a_list(p: &mut Pool<'_>, q: &mut Pool<'_>) {
    p.with(|_, [a]| q.with(|mut others, _| others.pop_front(a)));
}

fn a_list_to_move_to(p: &mut Pool<'_>, q: &mut Pool<'_>) {
    p.with(|mut lists, [a]| q.with(|_, [b]| lists.cursor_front(a).shift_back(b)))
}

fn lists_exchanged(p: &mut Pool<'_>, q: &mut Pool<'_>) {
    p.with(|mut lists, _| q.with(|mut others, _| core::mem::swap(&mut lists, &mut others)))
}

fn a_number(p: &mut Pool<'_>, q: &mut Pool<'_>) {
    p.with(|lists, _| {
        q.with(|mut others, [b]| {
            if let (Some(context), Ok(node)) = (lists.context(0), others.alloc(1)) {
                others.stage_back(context.stage_seq(1u32).unwrap(), b, node).committed()
            }
        })
    })
}

fn main() {}
