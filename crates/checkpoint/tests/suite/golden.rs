//! Pins every byte of the format. A change here needs a new format version, a line in CHANGELOG.md
//! and one in docs/SPEC.md.

use checkpoint::{
    Archive, Error, HeapTracker, Images, KeepLast, Log, Memory, Split, Store, inspect,
};
use nvmem::device::Medium;
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
0x000: 52 4c 43 33 01 00 00 00 fe ff ff ff 21 00 00 00
0x010: 88 77 66 55 44 33 22 11 35 b9 f3 c9 dd cc bb aa
0x020: 00 00 00 00 00 00 00 00 05 00 00 00 51 52 53 54
0x030: 55 05 00 00 00 02 00 00 00 00 61 1e 00 00 00 02
0x040: 00 00 00 72 73 ba f1 d5 d0 ba ab da 9e 00 00 00
0x080: 52 4c 43 33 02 00 00 00 fd ff ff ff 21 00 00 00
0x090: 88 77 66 55 44 33 22 11 35 b9 f3 c9 02 00 00 00
0x0a0: 00 00 00 00 00 00 00 00 05 00 00 00 51 52 53 54
0x0b0: 55 05 00 00 00 02 00 00 00 00 61 1e 00 00 00 02
0x0c0: 00 00 00 72 73 30 ca e4 33 33 5c a6 e4 00 00 00
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

/// A block that is not in use: its zeros are stored as a length.
struct None;
impl checkpoint::Blocks for None {
    fn in_use(&self, _: u32) -> bool {
        false
    }
}

/// With a name, a marker, and an extent of zeros.
#[test]
fn archive_on_flash() {
    let mut nor = RamNor::<3, 256, 8>::new();
    let mode = HeapTracker(&None);
    let mut archive =
        Archive::<_, _, _, 3>::open(&mut nor, 0..768, PROGRAM, mode, KeepLast).unwrap();
    let mut state = State::new();
    archive.checkpoint(0x0BAD_CAFE, &state.memory(), 1).unwrap();
    let expected = "\
0x000: 52 4c 43 33 01 00 00 00 fe ff ff ff 2b 00 00 00
0x010: 88 77 66 55 44 33 22 11 35 b9 f3 c9 01 00 00 00
0x020: fe ca ad 0b 00 00 00 00 05 00 00 00 51 52 53 54
0x030: 55 05 00 00 00 04 00 00 00 00 61 00 00 09 00 00
0x040: 00 14 00 00 80 1e 00 00 00 02 00 00 00 72 73 00
0x050: c2 b6 e2 7d c5 9e 67 d6 61 08 5b 0c 61 08 5b 0c
0x060: 9e f7 a4 f3 9e f7 a4 f3 ff ff ff ff ff ff ff ff
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

/// Images and records of the version before this one are refused by name.
#[test]
fn an_older_format_is_refused() {
    let mut state = State::new();
    let mut fram = RamFram::<512>::filled(0);
    let mut images = Images::<_, 2>::open(&mut fram, 0..512, PROGRAM).unwrap();
    images.checkpoint(&Split, &state.memory(), 1).unwrap();
    fram.bytes_mut()[3] = b'2';
    state.0 = [9; 5];
    let mut images = Images::<_, 2>::open(&mut fram, 0..512, PROGRAM).unwrap();
    let refused = images.restore(&mut state.memory());
    assert_eq!(refused, Err(Error::OlderFormat));
    assert_eq!(state.0, [9; 5], "memory is unchanged");
    // The next checkpoint replaces it.
    for context in 2..4 {
        images.checkpoint(&Split, &state.memory(), context).unwrap();
        assert_eq!(
            images.restore(&mut state.memory()).unwrap().context,
            context
        );
    }

    type Nor = RamNor<16, 256, 8>;
    fn open(nor: &mut Nor) -> Log<&mut Nor, 6, 40, 32> {
        Log::open(nor, 0..16 * 256, PROGRAM).unwrap()
    }
    let mut nor = Nor::new();
    open(&mut nor).save(&state.memory(), 1).unwrap();
    for record in nor.bytes_mut().chunks_mut(128) {
        if record.starts_with(b"RLL2") {
            record[3] = b'1';
        }
    }
    let mut log = open(&mut nor);
    let refused = log.load(&mut state.memory());
    assert_eq!(refused, Err(Error::OlderFormat));
    assert_eq!(state.0, [9; 5], "memory is unchanged");
    log.save(&state.memory(), 2).unwrap();
    assert_eq!(log.load(&mut state.memory()).unwrap().context, 2);
    assert_eq!(open(&mut nor).load(&mut state.memory()).unwrap().context, 2);
}

/// Two boots with two checkpoints each, of a memory of five cells.
fn logged<D: Medium<Error: std::fmt::Debug>>(mut d: D) -> D {
    let (mut statics, mut heap, mut stack) = ([0x51; 40], [0; 64], [0x71; 20]);
    for boot in 0..2 {
        let all = 0..d.capacity();
        let mut log = Log::<_, 6, 40, 32>::open(&mut d, all, PROGRAM).unwrap();
        let mut memory = Memory::new(&mut statics, &mut heap, &mut stack);
        log.load(&mut memory).ok();
        for n in 0..2 {
            let last = 2 * boot + n;
            statics[39] = last;
            let memory = Memory::new(&mut statics, &mut heap, &mut stack);
            let memory = memory.heap_used(40).stack_from(7);
            log.save(&memory, 0xAA00 + u32::from(last)).unwrap();
        }
    }
    d
}

fn shown(bytes: &[u8], word: u32) -> String {
    assert!(inspect::has_log(bytes, word));
    let mut out = String::new();
    inspect::log(bytes, word, &mut out).unwrap();
    out
}

#[test]
fn log() {
    let mut fram = logged(RamFram::<768>::filled(0));
    let expected = "\
0x000: 52 4c 4c 32 04 00 00 00 03 00 00 00 04 00 00 00
0x010: 88 77 66 55 44 33 22 11 76 e4 60 04 03 aa 00 00
0x020: 28 00 00 00 07 00 00 00 ff 7f 00 00 18 00 20 00
0x030: 00 80 02 80 00 00 43 a3 03 00 07 36 02 80 02 00
0x040: fe 7f 04 00 02 00 48 85 1f 2f 3c ef 00 00 00 00
0x080: 52 4c 4c 32 03 00 00 00 02 00 00 00 03 00 00 00
0x090: 88 77 66 55 44 33 22 11 76 e4 60 04 02 aa 00 00
0x0a0: 28 00 00 00 07 00 00 00 ff 7f 00 00 16 00 20 00
0x0b0: 00 80 02 00 00 00 43 a3 82 03 02 80 02 00 fe 7f
0x0c0: 04 00 02 00 48 85 00 00 f9 8e 28 af 00 00 00 00
0x100: 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51
0x110: 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51
0x120: 51 51 51 51 51 51 51 02 00 00 00 00 00 00 00 00
0x140: 00 00 00 00 00 00 00 71 71 71 71 71 71 71 71 71
0x150: 71 71 71 71 00 00 00 00 00 00 00 00 00 00 00 00
0x160: 51 51 51 51 51 51 51 03 00 00 00 00 00 00 00 00
";
    assert_eq!(lines(fram.bytes(), 0), expected);
    let said = "\
record at 0x0000: number 4, base 3, sequence 4, context 0xaa03, program 0x1122334455667788, 0 manifests
record at 0x0080: number 3, base 2, sequence 3, context 0xaa02, program 0x1122334455667788, 0 manifests
newest: the record at 0x0000, cells of 32 bytes from 0x0100 on
  heap in use: 40 bytes, stack in use: from 0x7 on
  cell 0: at 0x0100
  cell 1: at 0x0160
  cells 2 to 3: zero
  cell 4: at 0x0140
";
    assert_eq!(shown(fram.bytes(), 1), said);
    fram.bytes_mut()[0x165] ^= 1;
    assert!(shown(fram.bytes(), 1).contains("DAMAGED"));
}

#[test]
fn log_on_flash() {
    let mut nor = logged(RamNor::<16, 256, 8>::new());
    let expected = "\
0x500: 52 4c 4c 32 06 00 00 00 05 00 00 00 03 00 00 00
0x510: 88 77 66 55 44 33 22 11 76 e4 60 04 02 aa 00 00
0x520: 28 00 00 00 07 00 00 00 ff 7f 00 00 18 00 20 00
0x530: 00 80 02 80 08 00 43 a3 10 00 82 03 02 80 02 00
0x540: fe 7f 04 00 0a 00 48 85 29 ce 9c 08 00 00 00 00
0x580: 52 4c 4c 32 07 00 00 00 06 00 00 00 04 00 00 00
0x590: 88 77 66 55 44 33 22 11 76 e4 60 04 03 aa 00 00
0x5a0: 28 00 00 00 07 00 00 00 ff 7f 00 00 18 00 20 00
0x5b0: 00 80 02 80 08 00 43 a3 11 00 07 36 02 80 02 00
0x5c0: fe 7f 04 00 0a 00 48 85 db f3 e0 a7 00 00 00 00
0x600: 52 4c 4c 32 05 00 00 00 02 00 00 00 02 00 00 00
0x610: 88 77 66 55 44 33 22 11 76 e4 60 04 01 aa 00 00
0x620: 28 00 00 00 07 00 00 00 ff 7f 00 01 18 00 20 00
0x630: 00 80 02 80 08 00 43 a3 0b 00 3c 80 02 80 02 00
0x640: fe 7f 04 00 0a 00 48 85 07 17 7d 29 00 00 00 00
0x680: a3 81 41 73 a3 81 41 73 ff ff ff ff ff ff ff ff
0x700: 52 4c 4c 32 02 00 00 00 02 00 00 00 01 00 00 00
0x710: 88 77 66 55 44 33 22 11 76 e4 60 04 00 aa 00 00
0x720: 28 00 00 00 07 00 00 00 ff 7f 00 00 16 00 20 00
0x730: 00 80 02 00 08 00 43 a3 b9 b5 02 80 02 00 fe 7f
0x740: 04 00 0a 00 48 85 00 00 59 c2 02 aa 00 00 00 00
0x780: 52 4c 4c 32 03 00 00 00 02 00 00 00 02 00 00 00
0x790: 88 77 66 55 44 33 22 11 76 e4 60 04 01 aa 00 00
0x7a0: 28 00 00 00 07 00 00 00 ff 7f 00 00 18 00 20 00
0x7b0: 00 80 02 80 08 00 43 a3 0b 00 3c 80 02 80 02 00
0x7c0: fe 7f 04 00 0a 00 48 85 ae 98 86 cf 00 00 00 00
0x900: 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51
0x910: 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51 51
0x920: 51 51 51 51 51 51 51 00 00 00 00 00 00 00 00 00
0x930: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0x940: 00 00 00 00 00 00 00 71 71 71 71 71 71 71 71 71
0x950: 71 71 71 71 00 00 00 00 00 00 00 00 00 00 00 00
0x960: 51 51 51 51 51 51 51 01 00 00 00 00 00 00 00 00
0x970: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0xa00: 51 51 51 51 51 51 51 02 00 00 00 00 00 00 00 00
0xa10: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0xa20: 51 51 51 51 51 51 51 03 00 00 00 00 00 00 00 00
0xa30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
";
    assert_eq!(lines(nor.bytes(), 0xFF), expected);
    let said = "\
record at 0x0500: number 6, base 5, sequence 3, context 0xaa02, program 0x1122334455667788, 0 manifests
record at 0x0580: number 7, base 6, sequence 4, context 0xaa03, program 0x1122334455667788, 0 manifests
record at 0x0600: number 5, base 2, sequence 2, context 0xaa01, program 0x1122334455667788, 0 manifests, a copy with its marker
record at 0x0700: number 2, base 2, sequence 1, context 0xaa00, program 0x1122334455667788, 0 manifests
record at 0x0780: number 3, base 2, sequence 2, context 0xaa01, program 0x1122334455667788, 0 manifests
newest: the record at 0x0580, cells of 32 bytes from 0x0800 on
  heap in use: 40 bytes, stack in use: from 0x7 on
  cell 0: at 0x0900
  cell 1: at 0x0a20
  cells 2 to 3: zero
  cell 4: at 0x0940
";
    assert_eq!(shown(nor.bytes(), 8), said);
    let newest = nor.bytes().chunks(128).position(|b| b[..4] == *b"RLL2");
    nor.bytes_mut()[128 * newest.unwrap() + 50] ^= 1;
    assert!(shown(nor.bytes(), 8).contains("not complete, or damaged"));
}
