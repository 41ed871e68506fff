//! What is too large for an object, or aligned to more than blocks are, is refused when it is
//! compiled for good.
#![allow(dead_code, unused)]

include!("../support/shape.rs");
