use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data {
    good: u32,
    bad: core::sync::atomic::AtomicU32,
}

fn main() {}
