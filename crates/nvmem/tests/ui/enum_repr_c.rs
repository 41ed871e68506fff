use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
enum Mode {
    Off,
    On(u32),
}

fn main() {}
