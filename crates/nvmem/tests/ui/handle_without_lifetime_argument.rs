use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Node {
    value: u32,
    next: Option<PBox<Node>>,
}

fn main() {}
