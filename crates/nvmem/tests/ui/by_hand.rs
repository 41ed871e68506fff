// What a library believes is promised with `unsafe`.
use nvmem::fields::{Fields, Lend};
use nvmem::{Plain, ZeroNiche};

struct Mine(u32);

impl Plain for Mine {}
impl ZeroNiche for Mine {
    type Branded<'p> = Mine;
}
#[derive(Clone, Copy)]
struct Lender;
impl Lend for Lender {
    type Slot<U> = *mut U;
    unsafe fn slot<U>(self, at: *mut U) -> *mut U {
        at
    }
}
impl Fields for Mine {
    type Slots<L: Lend> = ();
    unsafe fn project<L: Lend>(_: *mut Self, _: L) {}
}

fn main() {}
