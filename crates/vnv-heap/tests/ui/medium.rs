//! A heap trusts the bytes that it reads, so its medium must be `Faithful`.
#![allow(dead_code, unused)]

include!("support/types.rs");

use nvmem::device::{Contract, Medium, Misuse};

/// Safe code, which may lose a write.
struct Forgetful(Fram);

impl Medium for Forgetful {
    type Error = Misuse;
    const CONTRACT: Contract = Fram::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.0.read(at, buf)
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), Misuse> {
        Ok(())
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

fn main() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = Heap::<u32, _, vnv_heap::JustInTime>::open(b, Forgetful(fram()), &mut ram, Config::DEFAULT, |_| Ok(0));
}
