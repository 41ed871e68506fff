//! What callgrind counts, one measurement after the other.

use std::hint::black_box;

/// Callgrind collects only while this runs.
#[inline(never)]
fn measured<R>(f: impl FnOnce() -> R) -> R {
    black_box(f())
}

/// Callgrind writes a file, of what it has collected since the one before, when this is entered.
/// (It takes one wish for each function, so this is not `measured`.)
#[inline(never)]
fn collected(key: &str) {
    black_box(key);
}

/// Measures `f`, which does `times` of what the key names. What is printed tells the reader of the
/// files so.
pub fn measure<R>(key: &str, times: usize, f: impl FnOnce() -> R) -> R {
    println!("measured {key} {times}");
    let r = measured(f);
    collected(key);
    r
}
