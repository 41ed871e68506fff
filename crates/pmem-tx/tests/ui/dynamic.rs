//! Handles lead to types of a known size.

include!("support/types.rs");

fn trait_object(b: PBox<'static, dyn Fn()>) {
    drop(b);
}

fn slice(b: PBox<'static, [u32]>) {
    drop(b);
}

fn main() {}
