//! A byte-writable medium that counts what goes over its bus.

use nvmem::Medium;
use nvmem::device::{Contract, Misuse, Torn, check_range};
use std::cell::Cell;
use vnv_heap::CostModel;

/// Bytes of a word, where each word is a transfer of its own.
const WORD: u64 = 4;

/// Bytes, operations, and the words of all operations.
#[derive(Debug, Default)]
pub struct Counts {
    read: Cell<u64>,
    written: Cell<u64>,
    operations: Cell<u64>,
    words: Cell<u64>,
}

impl Counts {
    /// Bytes that were read.
    pub fn read(&self) -> u64 {
        self.read.get()
    }
    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written.get()
    }
    /// Reads and writes.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }
    /// From nothing.
    pub fn reset(&self) {
        self.read.set(0);
        self.written.set(0);
        self.operations.set(0);
        self.words.set(0);
    }
    /// Microseconds on the bus: with a transfer for each operation, and with one for each word.
    pub fn microseconds(&self, model: &CostModel) -> [f64; 2] {
        let bytes = (self.read() + self.written()) as f64 * f64::from(model.byte_ns);
        [self.operations(), self.words.get()]
            .map(|transfers| (bytes + transfers as f64 * f64::from(model.operation_ns)) / 1000.0)
    }
    fn add(&self, to: &Cell<u64>, bytes: usize) {
        to.set(to.get() + bytes as u64);
        self.operations.set(self.operations.get() + 1);
        self.words
            .set(self.words.get() + (bytes as u64).div_ceil(WORD));
    }
}

/// Serial FRAM in the memory of the host.
#[derive(Debug)]
pub struct Fram<'c> {
    bytes: Vec<u8>,
    counts: &'c Counts,
}

impl<'c> Fram<'c> {
    /// Blank.
    pub fn new(len: usize, counts: &'c Counts) -> Self {
        Self::with(vec![0; len], counts)
    }
    /// One that holds this already.
    pub fn with(bytes: Vec<u8>, counts: &'c Counts) -> Self {
        Fram { bytes, counts }
    }
    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// All that the medium does: the name under which that is left out of the instructions.
#[inline(never)]
fn medium_read(fram: &mut Fram<'_>, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
    check_range(at, buf.len(), 1, fram.capacity())?;
    fram.counts.add(&fram.counts.read, buf.len());
    buf.copy_from_slice(&fram.bytes[at as usize..][..buf.len()]);
    Ok(())
}

/// As [`medium_read`].
#[inline(never)]
fn medium_write(fram: &mut Fram<'_>, at: u32, from: &[u8]) -> Result<(), Misuse> {
    check_range(at, from.len(), 1, fram.capacity())?;
    fram.counts.add(&fram.counts.written, from.len());
    fram.bytes[at as usize..][..from.len()].copy_from_slice(from);
    Ok(())
}

// SAFETY: an array, which the owner of the medium has for itself.
unsafe impl nvmem::Faithful for Fram<'_> {}

impl Medium for Fram<'_> {
    type Error = Misuse;

    const CONTRACT: Contract = Contract {
        name: "spi-fram",
        read_size: 1,
        write_size: 1,
        unit: 1,
        torn: Torn::Prefix,
        erase: None,
    };

    fn capacity(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        medium_read(self, at, buf)
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Misuse> {
        medium_write(self, at, from)
    }

    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_transfers() {
        let counts = Counts::default();
        let mut fram = Fram::new(64, &counts);
        assert!(fram.write(0, &[1; 30]).is_ok() && fram.read(8, &mut [0; 2]).is_ok());
        let model = CostModel {
            byte_ns: 200,
            operation_ns: 1000,
            ..CostModel::ESP32C3_MB85RS4MT
        };
        // 32 bytes; 2 operations, or 8 words and 1.
        assert_eq!(counts.microseconds(&model), [8.4, 15.4]);
    }
}
