//! A mode returns only extents that it got from memory.
use checkpoint::{Extent, Memory, Mode};

struct Mine;

impl Mode for Mine {
    fn extents(&self, _: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let part = Extent { at: 0, len: 1 << 30, zero: false };
        [part].into_iter()
    }
}

fn main() {}
