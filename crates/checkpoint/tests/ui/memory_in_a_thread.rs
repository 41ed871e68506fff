//! Memory stays on its thread.
use checkpoint::Memory;

fn to_a_thread(_: impl Send) {}

fn main() {
    let mut statics = [0; 8];
    to_a_thread(Memory::new(&mut statics, &mut [], &mut []));
}
