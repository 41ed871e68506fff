//! Pins every byte of the log. A change here needs a new format version, a line in CHANGELOG.md and
//! one in docs/SPEC.md.

use crate::support::MEMORY;
use nv_mirror::{Config, Mirror, inspect};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{InOrder32, Ram, Region};

const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};

/// Lines of 16 bytes that are not all `blank`.
fn lines(bytes: &[u8], blank: u8) -> String {
    let line = |(i, line): (usize, &[u8])| {
        let hex: Vec<_> = line.iter().map(|b| format!("{b:02x}")).collect();
        let any = line.iter().any(|b| *b != blank);
        any.then(|| format!("{:#06x}: {}\n", i * 16, hex.join(" ")))
    };
    bytes.chunks(16).enumerate().filter_map(line).collect()
}

fn set(region: &mut Region<'_, Ram>, word: usize, value: u32) {
    // SAFETY: invariant "Inside the region": a word of the region, and no reference to it exists.
    unsafe { region.store(word * 4, value) }
}

/// A base image of two runs, and two records.
fn write<D: Medium>(nv: &mut D) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let (mut mirror, mut region) = Mirror::open(nv, all, &THREE, &mut memory).unwrap();
    set(&mut region, 0, 0x0403_0201);
    set(&mut region, 1, 0x0807_0605);
    set(&mut region, 100, 0x6464_6464);
    mirror.durable(&mut region).unwrap();
    set(&mut region, 1, 0x1111_1111);
    mirror.durable(&mut region).unwrap();
    set(&mut region, 1, 0);
    set(&mut region, 103, 0x1234_5678);
    mirror.durable(&mut region).unwrap();
}

/// What `write` has written is found.
fn read<D: Medium>(nv: &mut D) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let (_, region) = Mirror::open::<InOrder32>(nv, all, &THREE, &mut memory).unwrap();
    for word in 0..104 {
        let expected = match word {
            0 => 0x0403_0201,
            100 => 0x6464_6464,
            103 => 0x1234_5678,
            _ => 0,
        };
        // SAFETY: invariant "Inside the region": a word of the region, which is initialised.
        assert_eq!(unsafe { region.load(word * 4) }, expected, "{word}");
    }
}

const FRAM: &str = "\
0x0800: 52 4c 49 31 01 00 00 00 a0 01 00 00 00 04 00 00
0x0810: 03 00 01 00 c1 52 cf a9 00 00 02 00 01 02 03 04
0x0820: 05 06 07 08 64 00 01 00 64 64 64 64 00 00 00 00
0x0830: 72 e8 83 49 01 00 01 00 11 11 11 11 00 00 00 00
0x0840: 18 1b 92 22 01 00 01 00 00 00 00 00 67 00 01 00
0x0850: 78 56 34 12 00 00 00 00 b0 27 89 41 00 00 00 00
";
const MRAM: &str = "\
0x0800: 52 4c 49 31 01 00 00 00 a0 01 00 00 00 04 00 00
0x0810: 03 00 10 00 d1 71 16 fa 00 00 00 00 00 00 00 00
0x0820: 00 00 02 00 01 02 03 04 05 06 07 08 64 00 01 00
0x0830: 64 64 64 64 00 00 00 00 78 37 0f 05 00 00 00 00
0x0840: 01 00 01 00 11 11 11 11 00 00 00 00 bf 20 06 cc
0x0850: 01 00 01 00 00 00 00 00 67 00 01 00 78 56 34 12
0x0860: 00 00 00 00 ac 8a db 8e 00 00 00 00 00 00 00 00
";
const NOR: &str = "\
0x0800: 52 4c 49 31 01 00 00 00 a0 01 00 00 00 04 00 00
0x0810: 03 00 08 00 88 e9 0d 78 2d 7f 31 22 2d 7f 31 22
0x0820: d2 80 ce dd d2 80 ce dd 00 00 02 00 01 02 03 04
0x0830: 05 06 07 08 64 00 01 00 64 64 64 64 00 00 00 00
0x0840: 7b 15 95 4d 00 00 00 00 01 00 01 00 11 11 11 11
0x0850: 00 00 00 00 91 50 f5 15 01 00 01 00 00 00 00 00
0x0860: 67 00 01 00 78 56 34 12 00 00 00 00 40 d6 4d be
";

/// The header of a log of version 2. Of later versions only this is known: the magic with the
/// version, and the check.
const NEWER: [u8; 24] = *b"\
    RLI2\x01\0\0\0\xa0\x01\0\0\0\x04\0\0\x03\0\x01\0\x45\x09\x55\xfa";

/// What `inspect` says of an image, and the image that it restores.
fn inspected(bytes: &[u8]) -> String {
    let mut image = vec![7; inspect::image_bytes(bytes)];
    let mut out = String::new();
    assert!(inspect::log(bytes, &mut image, &mut out).unwrap(), "{out}");
    let words = image.chunks(4).enumerate();
    let words = words.map(|(i, w)| (i, u32::from_le_bytes(w.try_into().unwrap())));
    let words: Vec<_> = words.filter(|(_, w)| *w != 0).collect();
    let expected = [(0, 0x0403_0201), (100, 0x6464_6464), (103, 0x1234_5678)];
    assert_eq!(words, expected);
    out
}

#[test]
fn serial_fram() {
    let mut nv = RamFram::<{ 3 * 1024 }>::filled(0);
    write(&mut nv);
    assert_eq!(lines(nv.bytes(), 0), FRAM);
    assert_eq!(
        inspected(nv.bytes()),
        "\
mirror: 3 segments of 1024 bytes, region of 416 bytes, words of 1 bytes, no erase
  segment at 0x0000: blank
  segment at 0x0400: blank
  segment at 0x0800: number 1, complete
    base image at 0x0818: 2 runs, 3 words
    record at 0x0834: 1 runs, 1 words
    record at 0x0844: 2 runs, 2 words
    0x085c: 932 bytes free
durable: segment number 1, base image and 2 records
"
    );
    read(&mut nv);
}

#[test]
fn mram() {
    let mut nv = RamMram::<{ 3 * 1024 }>::filled(0);
    write(&mut nv);
    assert_eq!(lines(nv.bytes(), 0), MRAM);
    assert!(inspected(nv.bytes()).contains("words of 16 bytes, no erase"));
    read(&mut nv);
}

#[test]
fn flash() {
    let mut nv = RamNor::<3, 1024, 8>::new();
    write(&mut nv);
    assert_eq!(lines(nv.bytes(), 0xFF), NOR);
    assert_eq!(
        inspected(nv.bytes()),
        "\
mirror: 3 segments of 1024 bytes, region of 416 bytes, words of 8 bytes, flash
  segment at 0x0000: blank
  segment at 0x0400: blank
  segment at 0x0800: number 1, confirmed
    base image at 0x0828: 2 runs, 3 words
    record at 0x0848: 1 runs, 1 words
    record at 0x0858: 2 runs, 2 words
    0x0870: 912 bytes free
durable: segment number 1, base image and 2 records
"
    );
    read(&mut nv);
}

/// The version is named, by `open` and by `inspect`, wherever its segments begin.
#[test]
fn another_version() {
    for at in [0, 1024, 2048] {
        let mut nv = RamFram::<3072>::filled(0);
        nv.write(at, &NEWER).unwrap();
        let before = nv.clone();
        assert_eq!(inspect::other_version(nv.bytes()), Some(2));
        assert!(!inspect::is_log(nv.bytes()));
        let mut memory = MEMORY;
        let open = Mirror::open_or_format::<InOrder32>(&mut nv, 0..3072, &THREE, &mut memory);
        let said = open.unwrap_err().to_string();
        assert!(
            said.contains("MIRR") && said.contains("version 2"),
            "{said}"
        );
        assert_eq!(nv.bytes(), before.bytes());
        nv.write(at + 20, &[0]).unwrap();
        assert_eq!(inspect::other_version(nv.bytes()), None);
    }
    let mut nv = RamFram::<3072>::filled(0);
    write(&mut nv);
    assert_eq!(inspect::other_version(nv.bytes()), None);
}
