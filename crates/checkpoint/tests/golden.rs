//! Every byte of the format. A change here is a new format version, a line in CHANGELOG.md and one in docs/SPEC.md.

use checkpoint::{Archive, HeapTracker, Images, KeepLast, Memory, Split, inspect};
use nvmem::ram::{RamFram, RamNor};

const PROGRAM: u64 = 0x1122_3344_5566_7788;

struct State([u8; 5], [u8; 24], [u8; 3]);

impl State {
    fn new() -> Self {
        let mut heap = [0; 24];
        heap[1] = 0x61;
        State([0x51, 0x52, 0x53, 0x54, 0x55], heap, [0x71, 0x72, 0x73])
    }
    fn memory(&mut self) -> Memory<'_> {
        let m = Memory::new(&mut self.0, &mut self.1, &mut self.2);
        m.heap_used(2).stack_from(1)
    }
}

/// Lines of 16 bytes that are not all `blank`.
fn lines(bytes: &[u8], blank: u8) -> String {
    let line = |(i, line): (usize, &[u8])| {
        let hex: Vec<_> = line.iter().map(|b| format!("{b:02x}")).collect();
        let any = line.iter().any(|b| *b != blank);
        any.then(|| format!("{:#05x}: {}\n", i * 16, hex.join(" ")))
    };
    bytes.chunks(16).enumerate().filter_map(line).collect()
}

fn inspected(bytes: &[u8], word: u32) -> String {
    let mut out = String::new();
    inspect::images(bytes, word, &mut out).unwrap();
    out
}

#[test]
fn slots() {
    let mut fram = RamFram::<256>::filled(0);
    let mut images = Images::<_, 2>::open(&mut fram, 0..256, PROGRAM).unwrap();
    let mut state = State::new();
    for context in [0xAABB_CCDD, 2] {
        images.checkpoint(&Split, &state.memory(), context).unwrap();
    }
    let expected = "\
0x000: 52 4c 43 32 01 00 00 00 fe ff ff ff 21 00 00 00
0x010: 88 77 66 55 44 33 22 11 35 b9 f3 c9 dd cc bb aa
0x020: 00 00 00 00 00 00 00 00 05 00 00 00 51 52 53 54
0x030: 55 05 00 00 00 02 00 00 00 00 61 1e 00 00 00 02
0x040: 00 00 00 72 73 a5 5c 3c 99 ce 84 4c 47 00 00 00
0x080: 52 4c 43 32 02 00 00 00 fd ff ff ff 21 00 00 00
0x090: 88 77 66 55 44 33 22 11 35 b9 f3 c9 02 00 00 00
0x0a0: 00 00 00 00 00 00 00 00 05 00 00 00 51 52 53 54
0x0b0: 55 05 00 00 00 02 00 00 00 00 61 1e 00 00 00 02
0x0c0: 00 00 00 72 73 2f 67 0d 7a 47 73 30 3d 00 00 00
";
    assert_eq!(lines(fram.bytes(), 0), expected);
    fram.bytes_mut()[128 + 50] ^= 1;
    let shown = "\
image at 0x0000: sequence 1, context 0xaabbccdd, program 0x1122334455667788, 33 bytes, intact
  memory 0x0000: 5 bytes
  memory 0x0005: 2 bytes
  memory 0x001e: 2 bytes
image at 0x0080: sequence 2, context 0x2, program 0x1122334455667788, 33 bytes, not complete, or damaged
  memory 0x0000: 5 bytes
  memory 0x0105: 2 bytes
  memory 0x001e: 2 bytes
";
    assert_eq!(inspected(fram.bytes(), 1), shown);
}

/// A block that is not in use: its zeros are told by their length.
struct None;
impl checkpoint::Blocks for None {
    fn in_use(&self, _: u32) -> bool {
        false
    }
}

/// With a name, marks, and an extent of zeros.
#[test]
fn archive_on_flash() {
    let mut nor = RamNor::<3, 256, 8>::new();
    let mode = HeapTracker(&None);
    let mut archive =
        Archive::<_, _, _, 3>::open(&mut nor, 0..768, PROGRAM, mode, KeepLast).unwrap();
    let mut state = State::new();
    archive.checkpoint(0x0BAD_CAFE, &state.memory(), 1).unwrap();
    let expected = "\
0x000: 52 4c 43 32 01 00 00 00 fe ff ff ff 2b 00 00 00
0x010: 88 77 66 55 44 33 22 11 35 b9 f3 c9 01 00 00 00
0x020: fe ca ad 0b 00 00 00 00 05 00 00 00 51 52 53 54
0x030: 55 05 00 00 00 04 00 00 00 00 61 00 00 09 00 00
0x040: 00 14 00 00 80 1e 00 00 00 02 00 00 00 72 73 00
0x050: fc 07 a0 f3 cf 11 b0 4a 58 89 fe d8 58 89 fe d8
0x060: b6 26 4b ca b6 26 4b ca ff ff ff ff ff ff ff ff
";
    assert_eq!(lines(nor.bytes(), 0xFF), expected);
    let shown = "\
image at 0x0000: sequence 1, name 0xbadcafe, context 0x1, program 0x1122334455667788, 43 bytes, intact
  memory 0x0000: 5 bytes
  memory 0x0005: 4 bytes
  memory 0x0009: 20 zeros
  memory 0x001e: 2 bytes
";
    assert_eq!(inspected(nor.bytes(), 8), shown);
}
