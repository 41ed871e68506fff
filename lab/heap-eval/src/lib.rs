//! The workloads of the heap's evaluation, and what the heap is compared with.
#![cfg_attr(not(feature = "host"), no_std)]

#[cfg(feature = "host")]
pub mod kv;
#[cfg(feature = "host")]
pub mod measure;
#[cfg(feature = "host")]
pub mod medium;
#[cfg(feature = "host")]
pub mod modules;
#[cfg(feature = "host")]
pub mod on_heap;
#[cfg(feature = "host")]
pub mod pages;
#[cfg(feature = "host")]
pub mod queue;
#[cfg(feature = "host")]
pub mod retrieval;
#[cfg(feature = "host")]
pub mod rng;
#[cfg(feature = "host")]
pub mod room;
#[cfg(feature = "host")]
pub mod saves;
#[cfg(feature = "no-section")]
mod section;
pub mod sizes;
