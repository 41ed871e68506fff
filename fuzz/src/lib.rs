//! What the fuzz targets share: images, and how an input edits one.

use core::mem::MaybeUninit;

/// A buffer for a region, all initialised.
pub type Words = Vec<MaybeUninit<u64>>;

/// A blank buffer of so many bytes, rounded down to whole words.
pub fn blank(bytes: usize) -> Words {
    vec![MaybeUninit::new(0); bytes / 8]
}

/// The bytes of an image.
pub fn bytes(words: &Words) -> &[u8] {
    // SAFETY: every word of a buffer is initialised, and stays so: media are stored to in whole units.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

/// The bytes of an image, to be changed.
pub fn bytes_mut(words: &mut Words) -> &mut [u8] {
    // SAFETY: as in `bytes`, and the buffer is borrowed.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// Changes a sound image as the input says: a list of edits of four bytes each, position, operation and operand.
///
/// A sound start gets the fuzzer past checksums to what lies behind them; [`overwrite`] is for those.
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

/// The input itself as the image, blank behind its end.
pub fn overwrite(image: &mut [u8], input: &[u8]) {
    image.fill(0);
    let n = input.len().min(image.len());
    image[..n].copy_from_slice(&input[..n]);
}

/// Writes seeds into the folder that `RELUME_SEEDS` names: called before the fuzzer reads its corpus.
pub fn seeds(all: &[(&str, Vec<u8>)]) {
    let Some(dir) = std::env::var_os("RELUME_SEEDS") else {
        return;
    };
    for (name, seed) in all {
        let path = std::path::Path::new(&dir).join(name);
        std::fs::write(&path, seed).expect("the folder of the seeds is writable");
    }
}
