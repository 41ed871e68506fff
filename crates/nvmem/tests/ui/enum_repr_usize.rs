use nvmem::Persist;

#[derive(Persist)]
#[repr(usize)]
enum Mode {
    Off,
    On,
}

fn main() {}
