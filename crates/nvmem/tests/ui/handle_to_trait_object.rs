use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Data<'p> {
    good: u32,
    bad: PBox<'p, dyn Fn()>,
}

fn main() {}
