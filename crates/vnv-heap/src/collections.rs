//! Collections: what owns many objects by one handle.
//!
//! A collection is a value of 4 to 52 bytes that lives in an object of the heap, often the root, and is used through that object's
//! guard: `heap.root_mut()?.queue.push(&heap, value)?`. Its elements are in objects of their own, in *chunks*, each of which is loaded, counted as
//! changed and written back alone; so a collection may be far larger than the RAM. None has drop glue: what is
//! overwritten or dropped is unreachable until the next open; each has a method `free`.
//!
//! | | elements | what it is for |
//! |---|---|---|
//! | [`Chunked`] | `PER` in a chunk | arrays whose length is known |
//! | [`Fifo`] | one in a chunk | queues: no traffic at all while it fits into the RAM |
//! | [`Vector`] | `PER` in a chunk | series that grow |
//! | [`Map`] | keys and values, `PER` in a chunk | look-up by key |
//! | [`Blob`] | bytes | texts, packets: a length that is known at run time |
//!
//! Elements and values may be of any type that can be stored, also one that owns objects or collections: `Fifo<Own<Packet>>`,
//! `Map<u16, Blob, 8>`. They go in by value, and come back by value: what is put in belongs to the collection, what is taken out to
//! the caller, and `clear` and `free` free what is in it. `with` and `update` look at an element where it lies. A key is plain.
//!
//! **Power loss**: a collection and the object in which it lies are as of the same persist or commit.

// What a guard is, and how it can fail, is said in full where it is returned.
#![allow(clippy::type_complexity)]

mod blob;
mod chunked;
mod entry;
mod fifo;
mod map;
mod places;
mod run;
mod vector;

pub use blob::Blob;
pub use chunked::Chunked;
pub use fifo::Fifo;
pub use map::Map;
pub use vector::Vector;

pub(crate) use run::Run;
