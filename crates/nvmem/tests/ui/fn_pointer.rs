use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data {
    good: u32,
    bad: fn() -> u32,
}

fn main() {}
