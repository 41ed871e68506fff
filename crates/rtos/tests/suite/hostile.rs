//! Any bytes: opening a system and running it gives values or errors, never a panic, a hang or
//! undefined behaviour.

pub mod system;

use system::{Run, TURNS, attack, image, in_order_16, in_order_32, words};

/// Sound images: just formatted, in the middle, at the end.
fn sound(run: Run) -> [Vec<u8>; 3] {
    [0, 2, TURNS + 2].map(|until| image(run, until))
}

/// Each byte of each image, wrong in several ways; several bytes wrong; words copied elsewhere.
fn attacked(run: Run) {
    let (step, rounds) = if cfg!(miri) { (701, 2) } else { (1, 4000) };
    let (mut opened, mut refused) = (0, 0);
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) as usize % n
    };
    let mut images = sound(run).to_vec();
    if cfg!(miri) {
        images.drain(..2);
    }
    for sound in images {
        let mut tried = |bad: &[u8]| match attack(run, &mut words(bad)) {
            true => opened += 1,
            false => refused += 1,
        };
        tried(&sound);
        for at in (0..sound.len()).step_by(step) {
            for v in [
                0,
                0xff,
                sound[at] ^ 1,
                sound[at] ^ 0x80,
                sound[at].wrapping_add(1),
            ] {
                let mut bad = sound.clone();
                bad[at] = v;
                tried(&bad);
            }
        }
        for _ in 0..rounds {
            let mut bad = sound.clone();
            for _ in 0..=below(4) {
                let (at, from) = (below(bad.len() - 8), below(bad.len() - 8));
                match below(3) {
                    0 => bad[at] = below(256) as u8,
                    1 => bad[at] ^= 1 << below(8),
                    _ => bad.copy_within(from..from + 8, at),
                }
            }
            tried(&bad);
        }
    }
    assert!(opened > 3, "{opened}");
    assert!(refused > 3 || cfg!(miri), "{refused}");
}

#[test]
fn in_order_32_bits() {
    attacked(in_order_32::run)
}

#[test]
fn in_order_16_bits() {
    attacked(in_order_16::run)
}

#[test]
fn a_state_that_its_object_never_has() {
    use nv_rtos::OpenError::Object;
    use nv_rtos::nvmem::{Superblock, tagged::TagError};
    let sound = image(in_order_32::run, 2);
    // A count above the maximum, a slot that is neither empty nor full, a holder that is no thread,
    // a timer with a third slot, a number of a thread without a life.
    for (index, state) in [(0, 10), (1, 5), (5, 4), (6, 3), (20, 8)] {
        let mut bad = sound.clone();
        let at = Superblock::BYTES + 4 * index;
        bad[at..at + 4].copy_from_slice(&[state, state, 0, 0]);
        let refused = in_order_32::run(&mut words(&bad), TURNS, false);
        assert_eq!(refused, Err(Object(TagError::Damaged { index })));
    }
}

/// At the largest time even a timeout of 0 ticks would never end: such a clock is refused.
#[test]
fn a_clock_that_is_at_its_end() {
    use nv_rtos::OpenError::Damaged;
    use nv_rtos::nvmem::Superblock;
    for run in [in_order_32::run as Run, in_order_16::run] {
        let sound = image(run, 2);
        // What the port's clock shows: a version of the stored clock, and perhaps something else.
        let time = 3u64.to_le_bytes();
        let at = (Superblock::BYTES..512).step_by(2);
        let shows = at.filter(|at| sound[*at..*at + 8] == time);
        let refused = shows.filter(|at| {
            let mut bad = sound.clone();
            bad[*at..*at + 8].fill(0xff);
            run(&mut words(&bad), 1, false) == Err(Damaged)
        });
        assert_eq!(refused.count(), 1);
    }
}
