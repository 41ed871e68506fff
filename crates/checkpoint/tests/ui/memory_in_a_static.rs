//! Memory is no static that all threads see.
use checkpoint::Memory;
use std::sync::OnceLock;

static MEMORY: OnceLock<Memory<'static>> = OnceLock::new();

fn main() {
    MEMORY.get();
}
