use nvmem::Persist;

struct Inner {
    rate: u16,
}

#[derive(Persist)]
#[repr(C)]
struct Data {
    inner: Inner,
}

fn main() {}
