//! Every unit of the format behind the superblock. A change here is a new format version, a line in
//! CHANGELOG.md and one in docs/SPEC.md.

mod wide {
    #![allow(dead_code)] // the file is shared with `hostile`, which uses more
    type M = nv_device::nvmem::InOrder32;
    include!("hostile/image.rs");
}
mod narrow {
    #![allow(dead_code)]
    type M = nv_device::nvmem::InOrder16;
    include!("hostile/image.rs");
}

use nv_device::nvmem::{Model, Region, Superblock, Unit};

/// The superblock's kind, version and parameters, and all units behind it that are not zero.
fn text<M: Model>(mut words: Vec<core::mem::MaybeUninit<u64>>) -> String {
    let region = Region::<M>::new(&mut words);
    let unit = M::Unit::BYTES;
    // SAFETY: units of the region; nothing is lent.
    let word = |off: usize| unsafe { region.load(off) };
    (Superblock::BYTES..region.len())
        .step_by(unit)
        .filter(|off| word(*off) != 0)
        .map(|off| format!("{off:#05x}: {:0width$x}\n", word(off), width = unit * 2))
        .collect()
}

#[test]
fn units_of_4() {
    let expected = "\
0x080: 00000003
0x088: 00000003
0x090: 00000007
0x094: 00000001
0x098: 00000008
0x09c: 00000001
0x0a0: 00010100
0x0a8: 00000005
0x0b0: 00000007
0x0b4: 00000001
0x0b8: 00000009
0x0bc: 00000001
0x0c0: 80000011
0x0c4: 81000022
0x0c8: 82000033
0x0cc: 83000044
0x0d0: 00000001
0x0d8: 00000005
0x0e4: 00000101
";
    assert_eq!(text::<nv_device::nvmem::InOrder32>(wide::image()), expected);
}

#[test]
fn units_of_2() {
    let expected = "\
0x080: 0003
0x088: 0003
0x090: 0007
0x094: 0001
0x098: 0008
0x09c: 0001
0x0a0: 0005
0x0a8: 0001
0x0b0: 0005
0x0b8: 0007
0x0bc: 0001
0x0c0: 0009
0x0c4: 0001
0x0c8: 8011
0x0ca: 8122
0x0cc: 8233
0x0ce: 8344
0x0d0: 0001
0x0d8: 0005
0x0e2: 0101
";
    assert_eq!(
        text::<nv_device::nvmem::InOrder16>(narrow::image()),
        expected
    );
}

/// What `inspect` prints of these images, with what is in doubt.
mod printed {
    use super::*;
    use nv_device::inspect;

    fn bytes(words: Vec<core::mem::MaybeUninit<u64>>) -> Vec<u8> {
        // SAFETY: a formatted region of plain values without padding.
        let words = words.iter().map(|w| unsafe { w.assume_init() });
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn superblock(bytes: &[u8]) -> Superblock {
        let (copies, _) = bytes.as_chunks::<{ Superblock::COPY_BYTES }>();
        let stored = copies.iter().take(2).filter_map(Superblock::decode);
        let newest = stored.max_by_key(|s| s.sequence);
        newest.expect("a superblock").superblock
    }

    fn print(bytes: &[u8]) -> String {
        let sb = superblock(bytes);
        assert!(inspect::is_contexts(&sb));
        let mut out = String::new();
        inspect::contexts(&sb, bytes, &mut out).expect("a string");
        out
    }

    #[test]
    fn with_what_is_in_doubt() {
        let expected = "\
device contexts, units of UNIT bytes
  item 0: own context, 1 B: 03
  item 1: own context, 8 B: 08 00 00 00 01 00 00 00
  item 2: staged context, 1 B: 01, then 00 by the step of number 1
  item 3: staged context, 8 B: 07 00 00 00 01 00 00 00, then 09 00 00 00 01 00 00 00 by the step \
of number 1
  item 4: events of a ring of 4
    slot 0: number 0, 17
    slot 1: number 1, 34
    slot 2: number 2, 51
    slot 3: number 3, 68
    lost: 1
    position, and losses that were told: 00 00, then 01 01 by the step of number 1
";
        let of = |unit| expected.replace("UNIT", unit);
        assert_eq!(print(&bytes(wide::image())), of("4"));
        assert_eq!(print(&bytes(narrow::image())), of("2"));
    }

    /// Any bytes behind the superblock, and any parameters: it prints something.
    #[test]
    fn of_any_bytes() {
        let image = bytes(wide::image());
        let sb = superblock(&image);
        let mut out = String::new();
        // Under Miri, which is slow, some places are enough.
        let some = if cfg!(miri) { 61 } else { 1 };
        for at in (0..image.len()).step_by(some) {
            out.clear();
            for value in [0, 0xFF, image[at] ^ 1] {
                let mut bytes = image.clone();
                bytes[at] = value;
                for len in [at, image.len()] {
                    let printed = inspect::contexts(&sb, &bytes[..len], &mut out);
                    assert!(printed.is_ok());
                }
            }
        }
        for param in 0..8 {
            for value in [0, 1, u32::MAX, 0x7FFF_7FFF, 0xFFFE_FFFE] {
                let mut sb = sb;
                sb.params[param] = value;
                assert!(inspect::contexts(&sb, &image, &mut out).is_ok());
            }
        }
    }
}
