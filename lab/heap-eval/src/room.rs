//! How much of a buffer of RAM is for content: counted, by what is resident at the same time.

use crate::medium::{Counts, Fram};
use crate::on_heap::{Bare, CONFIG, bytes, ram, sure};
use vnv_heap::{Config, Heap, JustInTime, Own, Predict};

/// So often all objects are looked at: then the policy knows them.
const ROUNDS: usize = 1000;

/// How many objects of `N` bytes are resident at once in `buffer` bytes, beside the root.
pub fn resident<const N: usize>(buffer: usize) -> usize {
    let counts = Counts::default();
    let mut buffer = ram(buffer);
    let room = size_of_val(&buffer[..]);
    let config = Config {
        dirty_limit: 1 << 20,
        objects: 1024,
        ..CONFIG
    };
    vnv_heap::brand!(b);
    let fram = Fram::new(256 * 1024, &counts);
    let heap =
        Heap::<Bare, _, JustInTime, Predict>::open(b, fram, bytes(&mut buffer), config, |_| {
            Ok(Bare { number: 0 })
        });
    let heap = sure(heap);
    let objects = room / N + 1;
    let all: Vec<Own<'_, [u8; N]>> = (0..objects).map(|_| sure(heap.alloc([0; N]))).collect();
    // As many of them as are found again and again without a load, once what nobody uses has left.
    let fit = |n: &usize| {
        (0..ROUNDS).any(|_| {
            counts.reset();
            all.iter().take(*n).for_each(|o| drop(sure(heap.get(o))));
            counts.read() == 0
        })
    };
    (1..objects).take_while(fit).last().unwrap_or(0)
}

/// Bytes for each resident object beside its content: from two buffers, so that what is there once
/// does not count.
pub fn per_resident() -> f64 {
    let (small, large) = (8_192, 16_384);
    let objects = resident::<32>(large) - resident::<32>(small);
    (large - small) as f64 / objects as f64 - 32.0
}

/// Bytes of a handle, which is the same on every target.
pub const fn per_handle() -> usize {
    size_of::<Option<Own<'static, [u8; 32]>>>()
}
