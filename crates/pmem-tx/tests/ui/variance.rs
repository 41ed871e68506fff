//! Brands neither shrink nor grow.

include!("support/types.rs");

fn handle<'a, 'b: 'a>(b: PBox<'b, u32>) -> PBox<'a, u32> {
    b
}

fn cell<'a, 'b: 'a>(b: Ptr<'b, u32>) -> Ptr<'a, u32> {
    b
}

fn object<'p, 'a, 'b: 'a>(b: PBox<'p, Node<'b>>) -> PBox<'p, Node<'a>> {
    b
}

fn root<'a, 'b: 'a>(b: Root<'b, u32>) -> Root<'a, u32> {
    b
}

fn token<'t, 'a, 'b: 'a>(b: &'t Tx<'b>) -> &'t Tx<'a> {
    b
}

fn lent<'a, 'b: 'a>(b: HeldBox<'b, u32>) -> HeldBox<'a, u32> {
    b
}

fn slot<'t, 'a, 'b: 'a>(b: FieldSlot<'t, 'b, u32>) -> FieldSlot<'t, 'a, u32> {
    b
}

fn held<'a>(h: Held<Node<'static>>) -> Held<Node<'a>> {
    h
}

fn pool<'m, 'a>(p: Pool<'m, Node<'static>>) -> Pool<'m, Node<'a>> {
    p
}

fn main() {}
