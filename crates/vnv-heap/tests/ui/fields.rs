//! The types and fields that have getters and setters.
#![allow(dead_code, unused)]

include!("support/types.rs");

use vnv_heap::Fields;

#[derive(Fields, Persist)]
#[repr(u8)]
enum Mode {
    Slow,
    Fast { boost: u8 },
}

#[derive(Fields, Persist)]
#[repr(C)]
struct Pair(u16, u16);

#[derive(Fields, Persist)]
#[repr(C)]
struct Twice {
    rate: u8,
    set_rate: u8,
}

#[derive(Fields, Persist)]
#[fields(rename = Other)]
#[repr(C)]
struct Options {
    rate: u8,
}

fn main() {}
