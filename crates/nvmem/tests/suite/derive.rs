//! `#[derive(Persist)]`.
#![allow(dead_code)]

mod check;
mod constant;
mod facade;
pub mod handle;
mod hygiene;
mod layout;
mod padding;
mod shapes;
