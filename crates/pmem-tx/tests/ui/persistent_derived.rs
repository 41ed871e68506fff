//! Rule 3 in fields: handles too keep to the brand of their struct.

include!("support/types.rs");

#[derive(Persist)]
#[repr(C)]
struct Outside<'p> {
    mine: Option<PBox<'p, u32>>,
    foreign: Option<PBox<'static, u32>>,
}

#[derive(Persist)]
#[repr(C)]
struct Unbranded {
    handle: Option<PBox<'static, u32>>,
}

#[derive(Persist)]
#[repr(C)]
struct Kept<'p> {
    mine: Option<PBox<'p, u32>>,
    held: Held<u32>,
    token: &'p Tx<'p>,
}

#[derive(Persist)]
#[repr(C)]
struct Marked<'p> {
    mine: Option<PBox<'p, u32>>,
    mark: std::marker::PhantomData<&'p u32>,
}

fn main() {}
