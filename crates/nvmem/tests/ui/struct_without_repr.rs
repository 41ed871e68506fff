use nvmem::Persist;

#[derive(Persist)]
struct Settings {
    rate: u16,
}

fn main() {}
