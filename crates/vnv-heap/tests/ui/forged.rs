//! Safe code cannot make, copy or replace the types that tie handles to heaps.
#![allow(dead_code, unused)]

include!("support/types.rs");

use vnv_heap::{Brand, Policy, Predict, Promise, static_brand};

struct Eager;

impl Promise for Eager {
    const SNAPSHOT: bool = true;
}

#[derive(Clone, Copy)]
struct Random;

impl Policy for Random {}

fn a_brand<'h>() -> Brand<'h> {
    let place = vnv_heap::__brand::Place::new();
    let ends = place.ends();
    Brand::new(&ends)
}

fn a_static_one() -> Option<Brand<'static>> {
    vnv_heap::__brand::Once::new().brand()
}

fn twice<'h>(brand: Brand<'h>) -> [Brand<'h>; 2] {
    [brand.clone(), brand]
}

fn a_hidden_variable() {
    brand!(b);
    drop(a_handle_is_used_with_another_heap);
}

fn a_handle<'h>(own: &Own<'h, u32>) -> Own<'h, u32> {
    Own { id: own.id, _t: own._t, _brand: own._brand }
}

mod one {
    vnv_heap::static_brand!(pub Log);
    vnv_heap::static_brand!(pub Log);
}

fn two_promises<'h>(heap: Heap<'h, u32, Fram, JustInTime>) -> Heap<'h, u32, Fram, Snapshot> {
    heap
}

fn main() {}
