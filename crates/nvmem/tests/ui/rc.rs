use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data {
    good: u32,
    bad: std::rc::Rc<u32>,
}

fn main() {}
