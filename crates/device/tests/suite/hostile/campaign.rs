// Changes that are made to a sound image before it is opened.

use nv_device::nvmem::Superblock;

fn bytes(words: &mut Words) -> &mut [u8] {
    // SAFETY: initialised when made, and regions are stored to in whole units without padding.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// How many changed images were refused, and how many opened.
fn campaign(n: usize, change: impl Fn(usize, &mut [u8])) -> [usize; 2] {
    let sound = image();
    assert!(attack(&mut sound.clone()), "the image is sound");
    let mut seen = [0; 2];
    for i in (0..n).step_by(if cfg!(miri) { 1511 } else { 1 }) {
        let mut words = sound.clone();
        change(i, bytes(&mut words));
        seen[usize::from(attack(&mut words))] += 1;
    }
    seen
}

#[test]
fn every_bit_of_the_superblock() {
    // Only the newer copy counts, and the other one may be damaged unnoticed.
    let [refused, _] = campaign(Superblock::BYTES * 8, |i, b| b[i / 8] ^= 1 << (i % 8));
    assert!(cfg!(miri) || refused > 0);
}

#[test]
fn every_byte_with_any_value() {
    let [refused, opened] = campaign((48 * 8 - Superblock::BYTES) * 256, |i, b| {
        b[Superblock::BYTES + i / 256] = i as u8
    });
    let both = refused > 0 && opened > 0;
    assert!(cfg!(miri) || both, "{refused} refused, {opened} opened");
}

#[test]
fn several_bytes_at_random() {
    let [refused, opened] = campaign(3000, |i, b| {
        let mut rng = powerfail::Rng::new(i as u64);
        for _ in 0..3 {
            let at = rng.below((b.len() - Superblock::BYTES) as u64) as usize;
            b[Superblock::BYTES + at] = rng.below(256) as u8;
        }
    });
    let both = refused > 0 && opened > 0;
    assert!(cfg!(miri) || both, "{refused} refused, {opened} opened");
}

/// What is in doubt is what it was before; what is committed is what it became.
#[test]
fn the_number_decides() {
    for (number, on, level, waiting) in [(0, true, 7, 4), (1, false, 9, 3), (5, false, 9, 3)] {
        let mut words = image();
        let (_, _, one, two, ring) = contexts(&mut words, number).expect("a sound image");
        let one = StagedDevice::<Shown<bool>, _>::new(one, ());
        let two = StagedDevice::<Shown<Mode>, _>::new(two, ());
        assert_eq!(one.context(), Some(on));
        assert_eq!(two.context().map(|m| m.level), Some(level));
        assert_eq!(ring.waiting(), waiting);
    }
}
