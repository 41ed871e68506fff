use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Node {
    next: PBox<'static, u32>,
}

// Hidden in an alias.
type Kept = PBox<'static, u32>;

#[derive(Persist)]
#[repr(C)]
struct Aliased {
    next: Kept,
}

fn main() {}
