use nvmem::Persist;

#[derive(Persist)]
#[persist(skip)]
#[repr(C)]
struct A {
    rate: u16,
}

#[derive(Persist)]
#[repr(C)]
struct B {
    #[persist(skip)]
    rate: u16,
}

fn main() {}
