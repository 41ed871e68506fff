use nvmem::Persist;

#[derive(Persist)]
enum Never {}

fn main() {}
