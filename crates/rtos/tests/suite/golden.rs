//! Every byte of the format. A change here is a new format version, a line in CHANGELOG.md and one
//! in docs/SPEC.md.

use crate::hostile::system;

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
0x09c: 00300001
0x0a0: 00300080
0x0b4: 00000101
0x0bc: 00118180
0x0c8: 00300004
0x0cc: 00300002
0x0e0: 00000003
0x0f0: 00000003
0x0f8: 01010101
0x100: 01010101
0x104: 00000005
0x114: 00000001
0x124: 00000101
kernel: 23 words, units of 4 bytes, the clock shows 3
  word 0: 0x03, then 0x04 by thread 0, number 6
  word 1: 0x80, then 0x00 by thread 1, number 2
  word 2: 0x81, then 0x00 by thread 1, number 3
  word 3: 0x00, then 0x82 by thread 0, number 6
  word 4: 0x07, then 0x02 by thread 1, number 2
  word 5: 0x01
  word 6: 0x00, then 0x01 by thread 0, number 4
  word 7: 0x00, then 0x01 by thread 0, number 6
  word 8: 0x00, then 0x80 by thread 0, number 6
  word 13: 0x01
  word 15: 0x81, then 0x80 by thread 1, number 2
  word 18, thread 1: 0x00 (its own priority), then 0x04 (priority 3) by thread 0, number 6
  word 19, thread 2 in a reserved place: 0x00 (free), then 0x02 (priority 1) by thread 0, number 6
threads at 0x128, parameters [6, 23, 48, 4, 4371, 0, 0, 0]
";
    assert_eq!(kernel_of(in_order_32::run), expected);
}

#[test]
fn units_of_2() {
    let expected = "\
0x080: 004600c2
0x084: 00c10066
0x088: 00030046
0x08c: 00c10003
0x090: 000000c1
0x098: 00030000
0x09c: 00460000
0x0a4: 00c100c1
0x0b0: 00030004
0x0b4: 00800000
0x0b8: 00810000
0x0bc: 00820000
0x0c0: 00070002
0x0c4: 00010000
0x0c8: 00010000
0x0cc: 00010000
0x0d0: 00800000
0x0e4: 00010000
0x0ec: 00810080
0x0f8: 00040000
0x0fc: 00020000
0x110: 00000003
0x120: 00000003
0x128: 01010101
0x130: 01010101
0x134: 00000005
0x144: 00000001
0x154: 00000101
kernel: 23 words, units of 2 bytes, the clock shows 3
  word 0: 0x03, then 0x04 by thread 0, number 6
  word 1: 0x80, then 0x00 by thread 1, number 2
  word 2: 0x81, then 0x00 by thread 1, number 3
  word 3: 0x00, then 0x82 by thread 0, number 6
  word 4: 0x07, then 0x02 by thread 1, number 2
  word 5: 0x01
  word 6: 0x01
  word 7: 0x00, then 0x01 by thread 0, number 6
  word 8: 0x00, then 0x80 by thread 0, number 6
  word 13: 0x01
  word 15: 0x81, then 0x80 by thread 1, number 2
  word 18, thread 1: 0x00 (its own priority), then 0x04 (priority 3) by thread 0, number 6
  word 19, thread 2 in a reserved place: 0x00 (free), then 0x02 (priority 1) by thread 0, number 6
threads at 0x158, parameters [4, 23, 48, 2, 4371, 0, 0, 0]
";
    assert_eq!(kernel_of(in_order_16::run), expected);
}
