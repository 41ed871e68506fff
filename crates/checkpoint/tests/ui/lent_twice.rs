//! Two segments, or two memories, do not share bytes.
use checkpoint::Memory;

fn main() {
    let mut bytes = [0; 8];
    let memory = Memory::new(&mut bytes, &mut bytes, &mut []);
    drop(memory);
}
