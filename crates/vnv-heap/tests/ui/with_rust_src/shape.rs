//! Types that are too large or over-aligned for an object are refused at code generation.
#![allow(dead_code, unused)]

include!("../support/shape.rs");
