use nvmem::Persist;

#[path = "../suite/derive/handle.rs"]
mod handle;
use handle::PBox;

#[derive(Persist)]
#[repr(C)]
struct Plain(u32);

impl Drop for Plain {
    fn drop(&mut self) {}
}

#[derive(Persist)]
#[repr(C)]
struct Branded<'p>(PBox<'p, u32>);

impl Drop for Branded<'_> {
    fn drop(&mut self) {}
}

#[derive(Persist)]
#[repr(C)]
struct Generic<T>(T);

impl<T> Drop for Generic<T> {
    fn drop(&mut self) {}
}

#[derive(Persist)]
#[repr(u8)]
enum Sized<const N: usize> {
    A([u8; N]),
}

impl<const N: usize> Drop for Sized<N> {
    fn drop(&mut self) {}
}

fn main() {}
