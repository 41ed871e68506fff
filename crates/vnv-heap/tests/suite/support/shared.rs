//! A medium of bytes that a test can inspect while a heap owns it.

use nvmem::Medium;
use nvmem::device::{Contract, Misuse, Torn, check_range};
use std::sync::{Arc, Mutex};

/// Its bytes and a log of operations.
#[derive(Debug, Clone)]
pub struct Chip {
    pub bytes: Vec<u8>,
    pub written: u64,
    pub read: u64,
    pub largest: usize,
    pub operations: u64,
    /// So many operations work; then each fails.
    pub fails_after: Option<u32>,
}

/// A handle to it.
#[derive(Debug, Clone)]
pub struct Shared(pub Arc<Mutex<Chip>>);

impl Shared {
    pub fn new(bytes: Vec<u8>) -> Self {
        Shared(Arc::new(Mutex::new(Chip {
            bytes,
            written: 0,
            read: 0,
            largest: 0,
            operations: 0,
            fails_after: None,
        })))
    }
    #[allow(dead_code)]
    pub fn blank(len: usize) -> Self {
        Self::new(vec![0; len])
    }
    #[allow(dead_code)]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
    #[allow(dead_code)]
    pub fn written(&self) -> u64 {
        self.0.lock().unwrap().written
    }
    #[allow(dead_code)]
    pub fn moved(&self) -> u64 {
        let chip = self.0.lock().unwrap();
        chip.written + chip.read
    }
}

impl Chip {
    fn works(&mut self) -> Result<(), Misuse> {
        self.operations += 1;
        match &mut self.fails_after {
            Some(0) => Err(Misuse::WornOut),
            Some(n) => {
                *n -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

// SAFETY: bytes that a test changes only while no heap is open on them.
unsafe impl nvmem::Faithful for Shared {}

impl Medium for Shared {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "shared",
        read_size: 1,
        write_size: 1,
        unit: 1,
        torn: Torn::Prefix,
        erase: None,
    };
    fn capacity(&self) -> u32 {
        self.0.lock().unwrap().bytes.len() as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        check_range(at, buf.len(), 1, self.capacity())?;
        let mut chip = self.0.lock().unwrap();
        chip.works()?;
        buf.copy_from_slice(&chip.bytes[at as usize..][..buf.len()]);
        chip.read += buf.len() as u64;
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        check_range(at, bytes.len(), 1, self.capacity())?;
        let mut chip = self.0.lock().unwrap();
        if let Err(e) = chip.works() {
            // Half of it has arrived.
            let half = &bytes[..bytes.len() / 2];
            chip.bytes[at as usize..][..half.len()].copy_from_slice(half);
            return Err(e);
        }
        chip.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        chip.written += bytes.len() as u64;
        chip.largest = chip.largest.max(bytes.len());
        Ok(())
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}
