//! Memory by its addresses needs `unsafe`.
use checkpoint::Memory;

fn main() {
    let p = core::ptr::dangling_mut::<u8>();
    Memory::from_addresses((p, p), (p, p), (p, p));
}
