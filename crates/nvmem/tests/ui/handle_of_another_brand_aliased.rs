use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

type Kept = PBox<'static, u32>;

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    kept: Option<Kept>,
    next: Option<PBox<'p, Node<'p>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Generic<'p, T> {
    kept: Kept,
    value: T,
    next: Option<PBox<'p, T>>,
}

fn main() {}
