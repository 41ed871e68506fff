//! Misuse that the types allow: each is an error value or harmless. Miri runs all of it.

use core::mem::MaybeUninit;
use nvmem::{Invalid, Maybe, Persist, Region};
use pmem_tx::{Config, Contexts, Error, Held, PBox, Pool, Ptr, Ret};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};

fn buffer(words: usize) -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); words]
}
fn bytes<O: Ret>(o: &O) -> Vec<u8> {
    let mut v = vec![];
    o.encode(&mut |b| v.extend_from_slice(b));
    v
}
/// A panic that prints nothing.
fn quiet() -> ! {
    resume_unwind(Box::new(7u8))
}
fn caught<T>(f: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(f)).ok()
}

// Once for each model: handles are of another width on one, fences matter on another.
mod in_order_32 {
    use super::*;
    type M = nvmem::InOrder32;
    type W = u32;
    include!("misuse/common.rs");
    include!("misuse/borrows.rs");
    include!("misuse/unwinding.rs");
    include!("misuse/handles.rs");
    include!("misuse/probes.rs");
}
mod buffered_32 {
    use super::*;
    type M = nvmem::Buffered32;
    type W = u32;
    include!("misuse/common.rs");
    include!("misuse/borrows.rs");
    include!("misuse/unwinding.rs");
    include!("misuse/handles.rs");
    include!("misuse/probes.rs");
}
mod in_order_16 {
    use super::*;
    type M = nvmem::InOrder16;
    type W = u16;
    include!("misuse/common.rs");
    include!("misuse/borrows.rs");
    include!("misuse/unwinding.rs");
    include!("misuse/handles.rs");
    include!("misuse/probes.rs");
}
