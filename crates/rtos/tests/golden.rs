//! Every byte of the format. A change here is a new format version, a line in CHANGELOG.md and one
//! in docs/SPEC.md.

#[path = "hostile/system.rs"]
#[allow(dead_code)] // what the other users of the file need
mod system;

use nv_rtos::inspect;
use nv_rtos::nvmem::Superblock;
use system::{Run, image, in_order_16, in_order_32};

/// The kernel's part of an image behind its superblock, without zeros; and what is said of it.
fn kernel_of(run: Run) -> String {
    let image = image(run, 3);
    let (first, second) = image.split_at(Superblock::BYTES / 2);
    let copies = [first, second].map(|c| Superblock::decode(c[..64].try_into().unwrap()));
    let newest = copies.iter().flatten().max_by_key(|c| c.sequence).unwrap();
    let sb = newest.superblock;
    assert!(inspect::is_kernel(&sb) && !newest.formatting);
    let end = inspect::threads_at(&sb).unwrap();
    let (words, _) = image[..end].as_chunks::<4>();
    let words = words.iter().enumerate().skip(Superblock::BYTES / 4);
    let mut said: String = words
        .map(|(i, w)| (4 * i, u32::from_le_bytes(*w)))
        .filter(|(_, w)| *w != 0)
        .map(|(at, w)| format!("{at:#05x}: {w:08x}\n"))
        .collect();
    inspect::kernel(&sb, &image, &mut said).unwrap();
    said + &format!("threads at {end:#x}, parameters {:?}\n", sb.params)
}

#[test]
fn units_of_4() {
    let expected = "\
0x080: 00300304
0x084: 00118000
0x088: 00198100
0x08c: 00300082
0x090: 00110702
0x094: 00000101
0x098: 00200001
0x09c: 00000101
0x0a4: 00118180
0x0ac: 00300004
0x0b8: 00000003
0x0c8: 00000003
0x0d0: 01010101
0x0d8: 01010101
0x0dc: 00000005
kernel: 14 words, units of 4 bytes, the clock shows 3
  word 0: 0x03, then 0x04 by thread 0, number 6
  word 1: 0x80, then 0x00 by thread 1, number 2
  word 2: 0x81, then 0x00 by thread 1, number 3
  word 3: 0x00, then 0x82 by thread 0, number 6
  word 4: 0x07, then 0x02 by thread 1, number 2
  word 5: 0x01
  word 6: 0x00, then 0x01 by thread 0, number 4
  word 7: 0x01
  word 9: 0x81, then 0x80 by thread 1, number 2
  word 11: 0x00, then 0x04 by thread 0, number 6
threads at 0xf0, parameters [6, 14, 28, 4, 0, 0, 0, 0]
";
    assert_eq!(kernel_of(in_order_32::run), expected);
}

#[test]
fn units_of_2() {
    let expected = "\
0x080: 004600c2
0x084: 00c10066
0x088: 00030046
0x08c: 00030081
0x090: 00460000
0x094: 00c10000
0x0a0: 00030004
0x0a4: 00800000
0x0a8: 00810000
0x0ac: 00820000
0x0b0: 00070002
0x0b4: 00010000
0x0b8: 00010000
0x0bc: 00010000
0x0c4: 00810080
0x0cc: 00040000
0x0d8: 00000003
0x0e8: 00000003
0x0f0: 01010101
0x0f8: 01010101
0x0fc: 00000005
kernel: 14 words, units of 2 bytes, the clock shows 3
  word 0: 0x03, then 0x04 by thread 0, number 6
  word 1: 0x80, then 0x00 by thread 1, number 2
  word 2: 0x81, then 0x00 by thread 1, number 3
  word 3: 0x00, then 0x82 by thread 0, number 6
  word 4: 0x07, then 0x02 by thread 1, number 2
  word 5: 0x01
  word 6: 0x00, then 0x01 by thread 0, number 4
  word 7: 0x01
  word 9: 0x81, then 0x80 by thread 1, number 2
  word 11: 0x00, then 0x04 by thread 0, number 6
threads at 0x110, parameters [4, 14, 28, 2, 0, 0, 0, 0]
";
    assert_eq!(kernel_of(in_order_16::run), expected);
}
