//! What reference retrieval is compared with: data that is split by hand into modules, one of which
//! is in RAM. Before an object is used its module must be there; the one that was is written out if
//! it was modified.

use crate::medium::{Counts, Fram};
use nvmem::Medium;

/// Bytes of a module: all the RAM that there is.
pub const MODULE: usize = 1024;

/// Modules on a medium.
pub struct Modules<'c> {
    ram: Box<[u8; MODULE]>,
    current: usize,
    modified: bool,
    fram: Fram<'c>,
}

impl<'c> Modules<'c> {
    /// `count` of them, none in RAM.
    pub fn new(count: usize, counts: &'c Counts) -> Self {
        Modules {
            ram: Box::new([0; MODULE]),
            current: usize::MAX,
            modified: false,
            fram: Fram::new(count * MODULE, counts),
        }
    }

    #[inline(never)]
    fn swap(&mut self, module: usize) -> bool {
        if self.modified {
            let to = (self.current * MODULE) as u32;
            if self.fram.write(to, &self.ram[..]).is_err() {
                return false;
            }
            self.modified = false;
        }
        self.current = module;
        self.fram
            .read((module * MODULE) as u32, &mut self.ram[..])
            .is_ok()
    }

    /// `len` bytes of a module, to be read.
    pub fn get(&mut self, module: usize, at: usize, len: usize) -> Option<&[u8]> {
        if self.current != module && !self.swap(module) {
            return None;
        }
        self.ram.get(at..at + len)
    }

    /// `len` bytes of a module, to be modified.
    pub fn get_mut(&mut self, module: usize, at: usize, len: usize) -> Option<&mut [u8]> {
        if self.current != module && !self.swap(module) {
            return None;
        }
        self.modified = true;
        self.ram.get_mut(at..at + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_read_once_and_written_when_it_was_modified() {
        let counts = Counts::default();
        let mut m = Modules::new(2, &counts);
        m.get_mut(0, 0, 4).unwrap().fill(7);
        assert_eq!((counts.read(), counts.written()), (1024, 0));
        assert_eq!(m.get(0, 0, 4), Some(&[7; 4][..]));
        assert_eq!(m.get(1, 0, 4), Some(&[0; 4][..]));
        assert_eq!((counts.read(), counts.written()), (2048, 1024));
        assert_eq!(m.get(0, 2, 2), Some(&[7; 2][..]));
        assert_eq!((counts.read(), counts.written()), (3072, 1024));
    }
}
