use nvmem::Persist;

#[derive(Persist)]
#[repr(C, align(16))]
struct Line {
    words: [u32; 4],
}

#[derive(Persist)]
#[repr(C)]
struct Wide {
    serial: u128,
}

fn main() {}
