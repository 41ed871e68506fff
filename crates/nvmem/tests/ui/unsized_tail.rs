use nvmem::Persist;

#[derive(Persist)]
#[repr(C)]
struct Samples {
    rate: u16,
    all: [u16],
}

#[derive(Persist)]
#[repr(C)]
struct Name(str);

#[derive(Persist)]
#[repr(C)]
struct Task {
    next: dyn Fn(),
}

#[derive(Persist)]
#[repr(C)]
struct Any<T: ?Sized> {
    value: T,
}

#[derive(Persist)]
#[repr(C)]
struct AnyWhere<T>
where
    T: ?Sized,
{
    value: T,
}

fn main() {}
