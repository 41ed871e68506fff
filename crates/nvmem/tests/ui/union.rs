use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
union Word {
    whole: u32,
    bytes: [u8; 4],
}

fn main() {}
