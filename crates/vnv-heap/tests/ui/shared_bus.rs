//! A saver uses the medium in an interrupt: a bus that a `RefCell` shares may be borrowed then.
#![allow(dead_code, unused)]

include!("support/types.rs");

use nvmem::device::{Contract, Medium, Misuse};
use std::cell::RefCell;

/// As `RefCellDevice` of embedded-hal-bus is.
struct OnSharedBus<'b>(&'b RefCell<Fram>);

impl Medium for OnSharedBus<'_> {
    type Error = Misuse;
    const CONTRACT: Contract = Fram::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.borrow().capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.0.borrow_mut().read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.0.borrow_mut().write(at, bytes)
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

fn attached<'h>(heap: &Heap<'h, u32, OnSharedBus<'_>, vnv_heap::JustInTime>) {
    static POWER_LOW: vnv_heap::Saver = vnv_heap::Saver::new();
    heap.attach(&POWER_LOW, || heap.alloc(5u32));
}

/// As `std::thread::spawn` asks; its own message shows more where the standard library's source is
/// installed.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send + 'static) {
    drop(job)
}

fn to_another_thread(heap: Heap<'static, u32, OnSharedBus<'static>, vnv_heap::JustInTime>) {
    in_another_thread(move || heap.root().is_ok());
}

fn main() {}
