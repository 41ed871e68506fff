use nvmem::Persist;

#[derive(Persist)]
enum Mode {
    Off,
    On,
}

fn main() {}
