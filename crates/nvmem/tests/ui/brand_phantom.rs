use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Data<'p> {
    good: u32,
    bad: core::marker::PhantomData<&'p u32>,
}

fn main() {}
