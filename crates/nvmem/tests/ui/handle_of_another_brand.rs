use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    kept: Option<PBox<'static, u32>>,
    next: Option<PBox<'p, Node<'p>>>,
}

fn main() {}
