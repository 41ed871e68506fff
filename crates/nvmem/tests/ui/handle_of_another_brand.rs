use nvmem::Persist;

#[path = "../derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    kept: Option<PBox<'static, u32>>,
    next: Option<PBox<'p, Node<'p>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Generic<T> {
    kept: PBox<'static, u32>,
    value: T,
}

fn main() {}
