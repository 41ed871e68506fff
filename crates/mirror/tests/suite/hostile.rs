//! Any bytes on the medium: `open` gives an error value, or a mirror that works.

use crate::support::MEMORY;
use nv_mirror::{Config, Mirror, MirrorError};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamNor};
use nvmem::{InOrder32, Ram, Region};
use proptest::prelude::*;

const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};
type Fram = RamFram<{ 3 * 1024 }>;
type Nor = RamNor<3, 1024, 4>;

fn set(region: &mut Region<'_, Ram>, word: usize, value: u32) {
    // SAFETY: invariant "Inside the region": a word of the region, and no reference to it exists.
    unsafe { region.store(word * 4, value) }
}

fn get(region: &Region<'_, Ram>, word: usize) -> u32 {
    // SAFETY: invariant "Inside the region": a word of the region, which is initialised.
    unsafe { region.load(word * 4) }
}

/// A log of several boots and records.
fn sound<D: Medium>(nv: &mut D) {
    for boot in 1..5 {
        let all = 0..nv.capacity();
        let mut memory = MEMORY;
        let (mut mirror, mut region) = Mirror::open(&mut *nv, all, &THREE, &mut memory).unwrap();
        for n in 0..6 {
            set(&mut region, 7 * n, boot * 100);
            mirror.durable(&mut region).unwrap();
        }
    }
}

/// Opens, and if that succeeds saves and opens again.
fn use_it<D: Medium>(nv: &mut D) -> Result<(), TestCaseError> {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let open = Mirror::open::<InOrder32>(&mut *nv, all.clone(), &THREE, &mut memory);
    let mut found = Vec::new();
    match open {
        Ok((mut mirror, mut region)) => {
            found.extend((0..104).map(|i| get(&region, i)));
            set(&mut region, 50, 0xABCD_EF01);
            mirror.durable(&mut region).unwrap();
        }
        Err(MirrorError::Medium(e)) => panic!("the medium was misused: {e:?}"),
        Err(_) => return Ok(()),
    }
    found[50] = 0xABCD_EF01;
    let mut memory = MEMORY;
    let (_, region) = Mirror::open::<InOrder32>(nv, all, &THREE, &mut memory).unwrap();
    for (i, w) in found.iter().enumerate() {
        prop_assert_eq!(*w, get(&region, i));
    }
    Ok(())
}

/// Bytes that are changed, at offsets that are often near the starts of segments.
fn edits() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let at = prop_oneof![
        (0..3usize, 0..120usize).prop_map(|(s, at)| s * 1024 + at),
        0..3 * 1024usize
    ];
    proptest::collection::vec((at, any::<u8>()), 1..12)
}

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { n })
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn edited_fram(edits in edits()) {
        let mut nv = Fram::filled(0);
        sound(&mut nv);
        for (at, b) in edits {
            nv.bytes_mut()[at] = b;
        }
        use_it(&mut nv)?;
    }

    #[test]
    fn edited_flash(edits in edits()) {
        let mut nv = Nor::new();
        sound(&mut nv);
        for (at, b) in edits {
            nv.bytes_mut()[at] = b;
        }
        use_it(&mut nv)?;
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 3 * 1024)) {
        let mut nv = Fram::filled(0);
        nv.bytes_mut().copy_from_slice(&bytes);
        use_it(&mut nv)?;
    }
}

/// Records whose checks are right and whose runs are not.
#[test]
fn runs_outside_of_the_image() {
    use nvmem::crc::Crc32;
    // The base image of zeros of a fresh log, and a record after it.
    for runs in [
        &[104 | 1 << 16, 7][..],
        &[103 | 2 << 16, 7, 8],
        &[0xFFFF | 0xFFFF << 16],
        &[105 << 16],
        // Not in order.
        &[5 | 1 << 16, 7, 4 | 1 << 16, 9],
        // No run, but an offset.
        &[5],
    ] {
        let mut nv = Fram::filled(0);
        let mut memory = MEMORY;
        let (mut mirror, mut region) =
            Mirror::open::<InOrder32>(&mut nv, 0..3 * 1024, &THREE, &mut memory).unwrap();
        mirror.durable(&mut region).unwrap();
        let at = 2048 + 24;
        let word = |at: usize| u32::from_le_bytes(*nv.bytes()[at..].first_chunk().unwrap());
        assert_eq!(word(at), 0);
        let mut check = Crc32::new().word(word(at + 4));
        let mut record = Vec::new();
        for w in runs.iter().chain(&[0]) {
            check = check.word(*w);
            record.extend(w.to_le_bytes());
        }
        record.extend(check.finish().to_le_bytes());
        nv.bytes_mut()[at + 8..][..record.len()].copy_from_slice(&record);
        let mut memory = MEMORY;
        let (mut mirror, mut region) =
            Mirror::open::<InOrder32>(&mut nv, 0..3 * 1024, &THREE, &mut memory).unwrap();
        assert!((0..104).all(|i| get(&region, i) == 0), "{runs:x?}");
        set(&mut region, 3, 3);
        mirror.durable(&mut region).unwrap();
    }
}
