use nvmem::Persist;

#[derive(Persist)]
#[repr(C, packed)]
struct Header {
    kind: u8,
    len: u32,
}

fn main() {}
