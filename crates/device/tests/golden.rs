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
