//! Shared by the fuzz targets: images, and edits of an image.

use core::mem::MaybeUninit;

/// A buffer for a region; every word is initialised.
pub type Words = Vec<MaybeUninit<u64>>;

/// A blank buffer of this many bytes, rounded down to whole words.
pub fn blank(bytes: usize) -> Words {
    vec![MaybeUninit::new(0); bytes / 8]
}

/// The bytes of an image.
pub fn bytes(words: &Words) -> &[u8] {
    // SAFETY: every word of a buffer is initialised, and remains so: media store whole units.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

/// The bytes of an image, mutable.
pub fn bytes_mut(words: &mut Words) -> &mut [u8] {
    // SAFETY: as in `bytes`, and the buffer is borrowed.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// Applies the input to a valid image as a list of edits of four bytes each: position, operation
/// and operand.
///
/// A valid start gets the fuzzer past the checksums. [`overwrite`] attacks the checksums
/// themselves.
pub fn edit(image: &mut [u8], input: &[u8]) {
    for e in input.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([e[0], e[1]])) % image.len();
        match e[2] % 4 {
            0 => image[at] = e[3],
            1 => image[at] ^= 1 << (e[3] % 8),
            2 => image[at] = image[at].wrapping_add(e[3]),
            _ => {
                let (from, n) = (usize::from(e[3]) * 8 % image.len(), 8);
                let (at, from) = (at.min(image.len() - n), from.min(image.len() - n));
                image.copy_within(from..from + n, at);
            }
        }
    }
}

/// Uses the input as the image; bytes after its end are blank.
pub fn overwrite(image: &mut [u8], input: &[u8]) {
    image.fill(0);
    let n = input.len().min(image.len());
    image[..n].copy_from_slice(&input[..n]);
}

/// Writes seeds into the folder named by `RELUME_SEEDS`. Called before the fuzzer reads its corpus.
pub fn seeds(all: &[(&str, Vec<u8>)]) {
    let Some(dir) = std::env::var_os("RELUME_SEEDS") else {
        return;
    };
    for (name, seed) in all {
        let path = std::path::Path::new(&dir).join(name);
        std::fs::write(&path, seed).expect("the folder of the seeds is writable");
    }
}

/// Seeds for a target that [`attack`]s images on units of 16 and of 32 bits: these two are sound.
pub fn seeds_of_both(narrow: &[u8], wide: &[u8]) {
    let whole = |mode: u8, image: &[u8]| [&[mode], image].concat();
    seeds(&[
        ("edit-16", vec![0]),
        ("edit-32", vec![1]),
        ("whole-16", whole(2, narrow)),
        ("whole-32", whole(3, wide)),
    ]);
}

/// Calls `run` with what the input says: whether it is for units of 32 bits, and how it changes a
/// sound image of these, by [`edit`] or by [`overwrite`].
pub fn attack(input: &[u8], run: impl FnOnce(bool, &dyn Fn(&mut [u8]))) {
    let Some((mode, rest)) = input.split_first() else {
        return;
    };
    let change = if mode & 2 == 0 { edit } else { overwrite };
    run(mode & 1 != 0, &|image| change(image, rest))
}
