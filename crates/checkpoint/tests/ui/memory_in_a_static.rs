//! Memory cannot be a static shared by threads.
use checkpoint::Memory;
use std::sync::OnceLock;

static MEMORY: OnceLock<Memory<'static>> = OnceLock::new();

fn main() {
    MEMORY.get();
}
