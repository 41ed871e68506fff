//! `#[derive(Persist)]`.
#![deny(warnings, missing_docs, unused, clippy::all)]
#![allow(dead_code)]

#[path = "derive/handle.rs"]
mod handle;
#[path = "derive/shapes.rs"]
mod shapes;
