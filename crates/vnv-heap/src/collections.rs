//! Collections: values that own many objects through one handle.
//!
//! A collection is a value of 4 to 52 bytes. It lies in an object of the heap, often the root, and
//! is used through that object's guard: `heap.root_mut()?.queue.push(&heap, value)?`. Its elements
//! lie in objects of their own, called *chunks*. Each chunk is paged in, counted as changed and
//! written back separately, so a collection may be far larger than the RAM. Collections have no
//! destructor: one that is overwritten or dropped is unreachable until the next open. Use
//! [`Heap::discard`](crate::Heap::discard) instead.
//!
//! | | elements | use |
//! |---|---|---|
//! | [`Chunked`] | `PER` in a chunk | arrays whose length is known |
//! | [`Fifo`] | one in a chunk | queues: no traffic while it fits into the RAM |
//! | [`Vector`] | `PER` in a chunk | series that grow |
//! | [`Map`] | keys and values, `PER` in a chunk | look-up by key |
//! | [`Blob`] | bytes | texts, packets: a length known at run time |
//!
//! Elements and values may be of any type that can be stored, also one that owns objects or
//! collections: `Fifo<Own<Packet>>`, `Map<u16, Blob, 8>`. They go in and come out by value. An
//! element in a collection belongs to the collection; one that was taken out belongs to the caller;
//! `clear` frees the elements. `with` and `update` access an element in place. A key
//! holds no handles.
//!
//! `get` copies, so it is for elements that own nothing; `with` shows an element where it is. Both
//! return `Ok(None)` if there is no such element. Each chunk counts for
//! [`Config::objects`](crate::Config::objects). `Fifo::alloc` allocates a chunk for each element at
//! once; a `Blob` is one chunk.
//!
//! A function that works with any heap takes a [`HeapOf`](crate::HeapOf). Then it need not name the
//! heap's root, medium, promise and policy:
//!
//! ```
//! use vnv_heap::collections::{Blob, Vector};
//! use vnv_heap::nvmem::{Persist, ram::RamFram};
//! use vnv_heap::{Config, Error, Heap, HeapOf, Snapshot, brand};
//!
//! #[derive(Persist)]
//! #[repr(C)]
//! struct Names<'h> {
//!     all: Vector<'h, Blob<'h>, 8>,
//! }
//!
//! impl<'h> Names<'h> {
//!     fn add<H: HeapOf<'h>>(&mut self, heap: &H, name: &str) -> Result<(), Error<H::Error>> {
//!         let blob = Blob::alloc(heap, name.as_bytes())?;
//!         Ok(self.all.push(heap, blob)?)
//!     }
//! }
//!
//! fn main() {
//!     let mut fram = RamFram::<8192>::filled(0);
//!     let mut ram = [0; 1024];
//!     brand!(b);
//!     let blank = |_: &_| Ok(Names { all: Vector::new() });
//!     let mut heap =
//!         Heap::<Names, _, Snapshot>::open(b, &mut fram, &mut ram, Config::DEFAULT, blank).unwrap();
//!
//!     for name in ["boiler", "pump"] {
//!         heap.root_mut().unwrap().add(&heap, name).unwrap();
//!     }
//!     heap.commit().unwrap();
//!
//!     let root = heap.root().unwrap();
//!     let first = root.all.with(&heap, 0, |blob| blob.with(&heap, |bytes| bytes.to_vec()));
//!     assert_eq!(first.unwrap().unwrap().unwrap(), b"boiler");
//! }
//! ```
//!
//! **Power loss**: a collection and the object in which it lies are as of the same persist or
//! commit.

// The full type of a guard and its error is stated where it is returned.
#![allow(clippy::type_complexity)]

mod array;
mod blob;
mod fifo;
mod map;
mod run;
mod vector;

pub use array::Chunked;
pub use blob::Blob;
pub use fifo::Fifo;
pub use map::Map;
pub use vector::Vector;
