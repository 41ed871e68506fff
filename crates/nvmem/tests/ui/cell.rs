use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data {
    good: u32,
    bad: core::cell::Cell<u32>,
}

fn main() {}
