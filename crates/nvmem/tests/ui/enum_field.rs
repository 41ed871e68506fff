use nvmem::Persist;

#[derive(Persist)]
#[repr(u8)]
enum Event {
    Nothing,
    At(std::time::Instant),
    Named { what: &'static str },
}

fn main() {}
