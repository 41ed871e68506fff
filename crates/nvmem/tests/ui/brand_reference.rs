use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data<'p> {
    good: u32,
    bad: &'p u32,
}

fn main() {}
