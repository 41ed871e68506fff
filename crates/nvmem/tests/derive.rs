//! `#[derive(Persist)]`.
// Under the strictest lints that a user may have: what the derive writes must not trip any.
#![forbid(unsafe_op_in_unsafe_fn)]
#![deny(warnings, missing_docs, unused, clippy::all)]
#![allow(dead_code)]

#[path = "derive/check.rs"]
mod check;
#[path = "derive/facade.rs"]
mod facade;
#[path = "derive/handle.rs"]
mod handle;
#[path = "derive/layout.rs"]
mod layout;
#[path = "derive/padding.rs"]
mod padding;
#[path = "derive/shapes.rs"]
mod shapes;
