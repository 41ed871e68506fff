use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data {
    good: u32,
    bad: core::marker::PhantomData<&'static u32>,
}

fn main() {}
