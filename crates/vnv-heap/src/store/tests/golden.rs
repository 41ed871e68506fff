//! Every byte of the format. A change here is a new format version, a line in CHANGELOG.md and one
//! in docs/spec/vnv-heap.md.

use super::*;
use nvmem::ram::RamFram;
use std::fmt::Write;
use std::string::String;

/// Two objects, one of them updated and one freed since the last save; with the snapshot promise
/// one commit that is applied, and something pending. In lines of 8 bytes, without those that are
/// zero.
fn image<P: Promise>() -> String {
    let config = Config {
        objects: 5,
        max_pins: 1,
        ..CONFIG
    };
    let mut fram = RamFram::<416>::filled(0);
    let mut s = open::<_, P>(&mut fram, &config).unwrap();
    let a = s.alloc_all(2, 5).unwrap();
    s.put_all(a, b"first").unwrap();
    s.put_all(a + 1, b"other").unwrap();
    s.put_all(1, &(0b1100u32).to_le_bytes()).unwrap();
    if !P::SNAPSHOT {
        let pin = Pin {
            id: 2,
            at: 0x120,
            len: 5,
            pins: 63,
        };
        s.write_pin(0, pin).unwrap();
        s.set_persisted(1).unwrap();
    } else {
        save(&mut s);
    }
    s.put_all(a, b"again").unwrap();
    s.free_all(a + 1).unwrap();
    let mut text = String::new();
    for (i, line) in fram.bytes().chunks(8).enumerate() {
        if line.iter().any(|b| *b != 0) {
            write!(text, "{:03x}:", i * 8).unwrap();
            line.iter().for_each(|b| write!(text, " {b:02x}").unwrap());
            text.push('\n');
        }
    }
    text
}

#[test]
fn just_in_time() {
    let expected = "\
000: 52 4c 4d 31 00 00 01 00
008: 48 45 41 50 00 00 00 00
038: 00 00 00 00 16 0c f7 a3
040: 52 4c 4d 31 01 00 02 00
048: 48 45 41 50 01 00 00 00
050: ef cd ab 89 67 45 23 01
058: 05 00 00 00 18 00 00 00
060: 01 00 00 00 00 00 00 00
078: 00 00 00 00 4e d9 7b 8e
080: 04 00 00 00 01 00 00 00
088: f6 b6 d4 59 00 00 00 00
090: 03 00 00 00 02 00 01 00
098: 40 21 bf 58 00 00 00 00
0a8: 02 00 20 01 05 00 3f 00
0b0: 01 00 01 00 03 00 03 00
0c8: 0f 00 00 00 00 00 00 00
0d0: 01 00 04 00 00 00 f0 32
0d8: 0c 00 00 00 00 00 00 00
0e0: 02 00 05 00 00 00 bd 58
0e8: 61 67 61 69 6e 00 00 00
0f0: 03 00 05 00 00 00 36 17
0f8: 6f 74 68 65 72 00 00 00
";
    assert_eq!(image::<JustInTime>(), expected);
}

#[test]
fn snapshot() {
    let expected = "\
000: 52 4c 4d 31 00 00 01 00
008: 48 45 41 50 00 00 00 00
038: 00 00 00 00 16 0c f7 a3
040: 52 4c 4d 31 01 00 02 00
048: 48 45 41 50 02 01 00 00
050: ef cd ab 89 67 45 23 01
058: 05 00 00 00 18 00 00 00
060: 01 00 00 00 00 00 00 00
078: 00 00 00 00 4f e7 d0 a1
080: 02 00 00 00 03 00 00 00
088: fa 77 b2 35 00 00 00 00
090: 01 00 00 00 03 00 00 00
098: 19 70 3d bb 00 00 00 00
0a0: 02 00 02 00 00 00 00 00
0b0: 07 00 07 00 03 00 09 00
0b8: 05 00 ff ff 00 00 00 00
0c8: fc 07 00 00 00 00 00 00
0d0: 01 00 04 00 00 00 1e 82
0e0: 02 00 05 00 00 00 55 e3
0e8: 66 69 72 73 74 00 00 00
0f0: 03 00 05 00 03 00 36 17
0f8: 6f 74 68 65 72 00 00 00
100: 01 00 04 00 05 00 f0 32
108: 0c 00 00 00 00 00 00 00
110: 02 00 05 00 00 00 bd 58
118: 61 67 61 69 6e 00 00 00
120: 03 00 05 80 09 00 00 00
";
    assert_eq!(image::<Snapshot>(), expected);
}

#[test]
fn printed() {
    let mut fram = RamFram::<600>::filled(0);
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    for (i, len) in [(2, 5), (3, 0), (4, 12)] {
        assert_eq!(s.alloc_all(1, len), Ok(i));
        s.put_all(i, &std::vec![7; usize::from(len)]).unwrap();
    }
    s.commit_all().unwrap();
    s.put_all(4, &[8; 12]).unwrap();
    s.free_all(3).unwrap();
    let place = s.image.locate(2).unwrap();
    let at = s.image.address(&place) as usize;
    fram.bytes_mut()[at] ^= 1;
    let mut text = String::new();
    assert!(inspect::is_heap(fram.bytes()));
    inspect::heap(fram.bytes(), &mut text).unwrap();
    std::println!("{text}");
    for line in [
        "heap: snapshot, 12 objects, ",
        "record 0: number 2, committed, 0 pins, counts",
        "object 1: unit 1 at ",
        "0 bytes, intact; then freed, not committed\n",
        "5 bytes, NOT intact",
        "12 bytes, intact; then in unit 9, not committed\n",
        "4 objects",
    ] {
        assert!(text.contains(line), "no \"{line}\" in\n{text}");
    }
    for cut in 0..600 {
        text.clear();
        inspect::heap(&fram.bytes()[..cut], &mut text).unwrap();
    }
}
