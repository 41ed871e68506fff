//! How large a heap is on the target that this is built for: the size of a symbol.

use nvmem::Medium;
use nvmem::device::{Contract, Misuse, Torn};
use vnv_heap::{Heap, JustInTime, Predict};

/// The smallest medium there can be, so that only the heap is counted.
#[derive(Debug)]
pub struct Empty;

impl Medium for Empty {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "empty",
        read_size: 1,
        write_size: 1,
        unit: 1,
        torn: Torn::Prefix,
        erase: None,
    };
    fn capacity(&self) -> u32 {
        0
    }
    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), Misuse> {
        Err(Misuse::OutOfRange)
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), Misuse> {
        Err(Misuse::OutOfRange)
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

/// As large as a heap that promises just in time, with the default policy.
#[used]
pub static SIZE_OF_HEAP: [u8; size_of::<Heap<'static, u32, Empty, JustInTime, Predict>>()] =
    [0; size_of::<Heap<'static, u32, Empty, JustInTime, Predict>>()];
