use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data {
    good: u32,
    bad: Vec<u8>,
}

fn main() {}
