use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Both<'a, 'b> {
    a: PBox<'a, u32>,
    b: PBox<'b, u32>,
}

fn main() {}
