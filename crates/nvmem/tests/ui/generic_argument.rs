use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Last<T> {
    value: T,
}

#[derive(Persist)]
#[repr(C)]
struct Data {
    names: Last<&'static str>,
}

fn persist<T: Persist>() {}
fn use_it() {
    persist::<Last<core::cell::Cell<u8>>>();
}

fn main() {}
