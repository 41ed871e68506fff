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
