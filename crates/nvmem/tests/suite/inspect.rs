//! The inspector's output for intact, cut and hostile images.

use core::mem::MaybeUninit;
use nvmem::inspect;
use nvmem::ram::{RamFram, RamNor};
use nvmem::{InOrder32, Record, Region, Superblock, superblock};

const SB: Superblock = Superblock {
    kind: *b"POOL",
    version: 1,
    fingerprint: 0x1122_3344_5566_7788,
    params: [1, 2, 3, 4, 5, 6, 7, 8],
};

fn said(f: impl FnOnce(&mut String) -> core::fmt::Result) -> String {
    let mut out = String::new();
    f(&mut out).unwrap();
    out
}

fn image(f: impl FnOnce(&mut Region<'_, InOrder32>)) -> Vec<u8> {
    let mut words = [MaybeUninit::new(0u64); 32];
    f(&mut Region::new(&mut words));
    // SAFETY: all initialised above, and the superblock stores whole units.
    words
        .iter()
        .flat_map(|w| unsafe { w.assume_init() }.to_ne_bytes())
        .collect()
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn superblocks() {
    let mut good = image(|r| superblock::finish(r, &SB));
    insta::assert_snapshot!(said(|o| inspect::superblock(&good, o)), @r#"
    superblock: "POOL" version 1 with layout 1122334455667788
      copy 0 at 0x0000: sequence 0, formatting, older; version 0, parameters 0 0 0 0 0 0 0 0
      copy 1 at 0x0040: sequence 1, ready, counts; version 1, parameters 1 2 3 4 5 6 7 8
    "#);
    good[70] ^= 1;
    insta::assert_snapshot!(said(|o| inspect::superblock(&good, o)), @r#"
    superblock: a format of "POOL" was begun and cut
      copy 0 at 0x0000: sequence 0, formatting, counts; version 0, parameters 0 0 0 0 0 0 0 0
      copy 1 at 0x0040: not intact
    "#);
    good[10] ^= 1;
    insta::assert_snapshot!(said(|o| inspect::superblock(&good, o)), @r"
    superblock: DAMAGED, no copy is intact
      copy 0 at 0x0000: not intact
      copy 1 at 0x0040: not intact
    ");
    assert_eq!(
        said(|o| inspect::superblock(&[0; 10], o)),
        "no superblock\n"
    );
    assert!(!inspect::is_superblock(&[0; 256]));
}

#[test]
fn records_and_blanks() {
    let mut d = RamNor::<3, 128, 8>::new();
    let mut r = Record::open(&mut d, 0..384, 5u32).unwrap();
    r.set(6).unwrap();
    d.bytes_mut()[75] ^= 1;
    let out = said(|o| inspect::records(d.bytes(), 8, o));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].starts_with("record slot at 0x0008: sequence 2, \"RECD\" version 2"));
    assert!(lines[0].ends_with(", 4 bytes, intact"));
    assert!(lines[1].starts_with("record slot at 0x0038: sequence 3"));
    assert!(lines[1].ends_with("NOT intact"));
    assert_eq!(
        said(|o| inspect::blank(&[0xFF; 64], o)),
        "blank: 64 bytes of 0xff\n"
    );
    assert_eq!(
        said(|o| inspect::blank(&[1, 2, 2], o)),
        "3 bytes, the last 2 are 0x02\n"
    );
    assert_eq!(said(|o| inspect::blank(&[], o)), "no bytes\n");
}

proptest::proptest! {
    #[test]
    fn any_bytes_can_be_looked_at(mut bytes: Vec<u8>, at: proptest::sample::Index, magic: bool, word in 0usize..300) {
        if bytes.len() > 4 {
            let at = at.index(bytes.len() - 4);
            bytes[at..at + 4].copy_from_slice(if magic { b"RLR2" } else { b"RLM1" });
        }
        let mut out = String::new();
        inspect::superblock(&bytes, &mut out).unwrap();
        inspect::records(&bytes, word, &mut out).unwrap();
        inspect::blank(&bytes, &mut out).unwrap();
        proptest::prop_assert!(!out.is_empty());
    }

    #[test]
    fn a_value_of_any_size_is_found(value: [u8; 37], fill in 0u8..2) {
        let mut d = RamFram::<256>::filled(fill.wrapping_neg());
        Record::open(&mut d, 0..256, value).unwrap();
        let out = said(|o| inspect::records(d.bytes(), 1, o));
        proptest::prop_assert!(out.contains("37 bytes, intact"), "{}", out);
    }
}
