//! Shows why one slot with a random number on both sides of the image is not enough.

use nvmem::InOrder32;
use nvmem::device::Medium;
use powerfail::{Mapped, World, explore};

/// A number, eight bytes of memory, and the same number: an image is valid if both numbers are
/// equal.
fn magic<D: Medium>(mut nv: D, world: &World<'_, (u32, u32)>) {
    let mut b = [0; 16];
    nv.read(0, &mut b).expect("inside");
    let word = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
    let mut memory = [0; 2];
    if word(0) == word(12) {
        memory = [word(4), word(8)];
    }
    let (seen, random) = world.get();
    assert_eq!(memory[0], memory[1], "a mixture is restored");
    assert!(
        memory[0] >= seen,
        "checkpoint {seen} was complete, and {} is restored",
        memory[0]
    );
    for n in memory[0] + 1..=3 {
        let number = (random + n).wrapping_mul(0x9E37_79B9);
        let parts = [number, n, n, number];
        for (i, p) in parts.iter().enumerate() {
            nv.write(4 * i as u32, &p.to_le_bytes()).expect("inside");
        }
        world.update(|w| *w = (n, w.1 + 7));
    }
}

#[test]
fn loses_the_only_image() {
    let failure = explore(Mapped::<InOrder32>::new(16), |nv, w| magic(nv, w))
        .name("magic")
        .try_run()
        .unwrap_err();
    let report = failure.report();
    assert!(report.contains("was complete"), "{report}");
}
