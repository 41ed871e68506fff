//! The last save: as many bytes as a persist can be made to write.

use crate::medium::{Counts, Fram};
use crate::on_heap::{Bare, CONFIG, bytes, ram, sure};
use crate::rng::Rng;
use vnv_heap::{Config, CostModel, Heap, JustInTime, Own, Predict, WorstCase};

/// The board on which the paper measured, with a transfer for every 4 bytes as it did.
pub const WORDS: CostModel = CostModel {
    name: "ESP32-C3 + MB85RS4MT, a transfer for each word",
    byte_ns: CostModel::ESP32C3_MB85RS4MT.byte_ns + CostModel::ESP32C3_MB85RS4MT.operation_ns / 4,
    ..CostModel::ESP32C3_MB85RS4MT
};

/// Objects in the heaps whose persists are measured: how many there may be bounds how many
/// transfers it takes.
const OBJECTS: u16 = 64;

/// How such a heap is configured.
pub const fn config(limit: u32) -> Config {
    Config {
        dirty_limit: limit,
        objects: OBJECTS,
        max_pins: 4,
        ..CONFIG
    }
}

/// What is known beforehand.
pub const fn bound(limit: u32, model: &CostModel) -> WorstCase {
    config(limit).worst_case(model)
}

/// What saving all of an unmanaged RAM costs, in one transfer.
pub const fn unmanaged(ram: u32, model: &CostModel) -> WorstCase {
    model.cost(ram, 0, 1)
}

/// The most bytes that a persist wrote, over objects of several sizes, pinned ones among them.
pub fn worst(buffer: usize, limit: u32, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    [
        of_size::<6>(buffer, limit, &mut rng),
        of_size::<22>(buffer, limit, &mut rng),
        of_size::<30>(buffer, limit, &mut rng),
        of_size::<62>(buffer, limit, &mut rng),
        of_size::<126>(buffer, limit, &mut rng),
        of_size::<254>(buffer, limit, &mut rng),
        of_size::<510>(buffer, limit, &mut rng),
        of_size::<1022>(buffer, limit, &mut rng),
        of_size::<1262>(buffer, limit, &mut rng),
        of_size::<1934>(buffer, limit, &mut rng),
    ]
    .into_iter()
    .max()
    .unwrap_or(0)
}

/// Updates objects of `N` bytes until the limit is reached, at random; a persist comes after each
/// of many updates.
fn of_size<const N: usize>(buffer: usize, limit: u32, rng: &mut Rng) -> u64 {
    // It could not be held, or not be resident.
    if N as u32 + 10 > limit || N + 40 > buffer {
        return 0;
    }
    let counts = Counts::default();
    let mut buffer = ram(buffer);
    let room = size_of_val(&buffer[..]);
    vnv_heap::brand!(b);
    let fram = Fram::new(64 * 1024, &counts);
    let heap = Heap::<Bare, _, JustInTime, Predict>::open(
        b,
        fram,
        bytes(&mut buffer),
        config(limit),
        |_| Ok(Bare { number: 0 }),
    );
    let mut heap = sure(heap);
    let objects = (2 * room / N).min(usize::from(OBJECTS) - 2);
    let all: Vec<Own<'_, [u8; N]>> = (0..objects).map(|_| sure(heap.alloc([0; N]))).collect();
    let mut worst = 0;
    for round in 0..60 {
        for _ in 0..1 + rng.below(objects) {
            sure(heap.get_mut(&all[rng.below(objects)])).fill(round);
        }
        counts.reset();
        sure(heap.persist());
        worst = counts.written().max(worst);
        sure(heap.restore());
    }
    worst
}
