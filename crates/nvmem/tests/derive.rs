//! `#[derive(Persist)]`.
#![allow(dead_code)]

#[path = "derive/check.rs"]
mod check;
#[path = "derive/constant.rs"]
mod constant;
#[path = "derive/facade.rs"]
mod facade;
#[path = "derive/handle.rs"]
mod handle;
#[path = "derive/hygiene.rs"]
mod hygiene;
#[path = "derive/layout.rs"]
mod layout;
#[path = "derive/padding.rs"]
mod padding;
#[path = "derive/shapes.rs"]
mod shapes;
