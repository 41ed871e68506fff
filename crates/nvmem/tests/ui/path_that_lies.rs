// A path to the real traits, with helpers that believe everything.
use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

mod lies {
    pub use nvmem::*;
    pub mod __derived {
        pub use nvmem::__derived::*;
        pub const fn assert_plain<T>() {}
        pub const fn assert_layout<T>() {}
    }
}

type Kept = PBox<'static, u32>;

#[derive(Persist)]
#[persist(crate = lies)]
#[repr(C)]
struct Node {
    next: Kept,
}

#[derive(Persist)]
#[persist(crate = lies)]
#[repr(C)]
struct Wide<T>([T; 1]);

#[derive(Persist)]
#[persist(crate = lies)]
#[repr(C)]
struct Drops(u8);
impl Drop for Drops {
    fn drop(&mut self) {}
}

fn main() {}
