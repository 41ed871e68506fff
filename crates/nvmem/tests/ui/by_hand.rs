// What a library believes is promised with `unsafe`.
use nvmem::fields::{FieldAccess, Fields};
use nvmem::{Plain, ZeroNiche};

struct Mine(u32);

impl Plain for Mine {}
impl ZeroNiche for Mine {
    type Branded<'p> = Mine;
}
#[derive(Clone, Copy)]
struct Lender;
impl FieldAccess for Lender {
    type FieldSlot<U> = *mut U;
    unsafe fn field_slot<U>(self, at: *mut U) -> *mut U {
        at
    }
}
impl Fields for Mine {
    type Slots<L: FieldAccess> = ();
    unsafe fn project<L: FieldAccess>(_: *mut Self, _: L) {}
}

fn main() {}
