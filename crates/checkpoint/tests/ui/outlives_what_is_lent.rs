//! Memory does not outlive the buffers that it borrows.
use checkpoint::Memory;

fn memory() -> Memory<'static> {
    let mut statics = [0; 8];
    Memory::new(&mut statics, &mut [], &mut [])
}

fn main() {
    memory();
}
