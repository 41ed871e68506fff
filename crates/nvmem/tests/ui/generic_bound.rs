use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Last<T: Copy> {
    value: T,
}

fn main() {}
