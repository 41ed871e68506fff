use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Last<T: Copy> {
    value: T,
}

#[derive(Persist)]
#[repr(C)]
struct History<T>
where
    T: Persist + Default + 'static,
{
    value: T,
}

fn main() {}
