use nvmem::Persist;

#[path = "../derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Node {
    next: PBox<'static, u32>,
}

fn main() {}
