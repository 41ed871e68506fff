//! Nodes, lists and access to lists cannot be made by hand.

use nvlist::{List, Lists, Node};

fn main() {
    let _ = Node { at: 7 };
    let _ = Node::new(7);
    let _ = List::new(3);
    let _: Lists<'_, u32> = Lists::new();
}
