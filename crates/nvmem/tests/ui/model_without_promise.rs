use nvmem::Model;

enum Cached {}

impl Model for Cached {
    type Unit = u32;
    const BUFFERED: bool = true;
    const NAME: &'static str = "cached";
    fn fence() {}
}

fn main() {}
