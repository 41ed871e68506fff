//! Every byte of the format. A change here is a new format version, a line in CHANGELOG.md and one
//! in docs/SPEC.md.

use core::mem::MaybeUninit;
use nvlist::NodePool;
use nvmem::{InOrder16, InOrder32, Model, Persist, Region, Superblock, Unit};

#[derive(Persist)]
#[repr(C)]
struct Item {
    name: [u8; 3],
    value: u16,
}

fn item(name: &[u8; 3], value: u16) -> Item {
    Item { name: *name, value }
}

/// Two lists and one context: three nodes in lists, one that was moved, one that was released. All
/// nonzero bytes behind the superblock.
fn image<M: Model>() -> String {
    let mut words = [MaybeUninit::new(0u64); 32];
    let region = Region::new(&mut words);
    let mut pool = NodePool::<Item, 2, M>::open_resolved(region, 1, |_| 0u32).unwrap();
    pool.with(|mut lists, [a, b]| {
        let number = lists.context(0).unwrap().stage_seq(0x77u32).unwrap();
        let node = lists.alloc(item(b"one", 0x1111)).ok().unwrap();
        lists.stage_back(number, a, node).committed();
        lists.push_back(a, item(b"two", 0x2222)).ok().unwrap();
        lists.push_back(a, item(b"six", 0x6666)).ok().unwrap();
        lists.push_back(a, item(b"ten", 0xaaaa)).ok().unwrap();
        let _ = lists.pop_back(a);
        lists.cursor_front(a).shift_front(b);
        let staged = lists.cursor_front(a).stage_unlink(number).unwrap();
        // Neither committed nor dropped: as a cut would leave it.
        core::mem::forget(staged);
    });
    let region = pool.close();
    // SAFETY: units of the region; nothing is lent.
    let word = |off: usize| unsafe { region.load(off) };
    let unit = M::Unit::BYTES;
    (Superblock::BYTES..region.len())
        .step_by(unit)
        .filter(|off| word(*off) != 0)
        .map(|off| format!("{off:#05x}: {:0width$x}\n", word(off), width = unit * 2))
        .collect()
}

#[test]
fn units_of_4() {
    let expected = "\
0x088: 00240024
0x08c: 002b002f
0x090: 00270027
0x094: 00000077
0x098: 002b0003
0x09c: 00240024
0x0a0: 00656e6f
0x0a4: 00001111
0x0ac: 002f0023
0x0b0: 006f7774
0x0b4: 00002222
0x0bc: 0023002b
0x0c0: 00786973
0x0c4: 00006666
0x0d0: 006e6574
0x0d4: 0000aaaa
";
    assert_eq!(image::<InOrder32>(), expected);
}

#[test]
fn units_of_2() {
    let expected = "\
0x088: 0090
0x08a: 0090
0x08c: 00bc
0x08e: 00ac
0x090: 009c
0x092: 009c
0x094: 0077
0x096: 00ab
0x09c: 0090
0x09e: 0090
0x0a0: 6e6f
0x0a2: 0065
0x0a4: 1111
0x0ac: 008c
0x0ae: 00bc
0x0b0: 7774
0x0b2: 006f
0x0b4: 2222
0x0bc: 00ac
0x0be: 008c
0x0c0: 6973
0x0c2: 0078
0x0c4: 6666
0x0ce: 008c
0x0d0: 6574
0x0d2: 006e
0x0d4: aaaa
";
    assert_eq!(image::<InOrder16>(), expected);
}

#[test]
fn the_superblock() {
    let mut words = [MaybeUninit::new(0u64); 32];
    let pool = NodePool::<Item, 2>::open(Region::new(&mut words)).unwrap();
    let region = pool.close();
    // SAFETY: units of the region; nothing is lent.
    let bytes = (0..32).flat_map(|i| unsafe { region.load(64 + i * 4) }.to_le_bytes());
    let bytes: Vec<u8> = bytes.collect();
    let copies = [0, 64].map(|at| {
        let all: Vec<u8> = (0..16)
            // SAFETY: as above.
            .flat_map(|i| unsafe { region.load(at + i * 4) }.to_le_bytes())
            .collect();
        Superblock::decode(all[..].try_into().unwrap())
    });
    assert_eq!(bytes.len(), 128);
    let sb = copies.iter().flatten().find(|c| !c.formatting).unwrap();
    assert_eq!(&sb.superblock.kind, b"LIST");
    assert_eq!(sb.superblock.version, 2);
    // Lists, contexts, unit, length, from node to node.
    assert_eq!(sb.superblock.params, [2, 0, 4, 256, 16, 0, 0, 0]);
}
