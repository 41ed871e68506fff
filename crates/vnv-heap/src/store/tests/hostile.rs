//! Media that hold anything: damaged, rotten, forged, or failing.

use super::*;
use crate::store::image::Geometry;
use crate::{Component, OpenError};
use nvmem::ram::RamFram;
use nvmem::superblock::Superblock;

const SIZE: usize = 640;

/// Objects 2 to 5, of 40, 8, 40 and 0 bytes.
fn image<P: Promise>() -> RamFram<SIZE> {
    let mut fram = RamFram::<SIZE>::filled(0);
    let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
    for (i, len) in [40, 8, 40, 0].into_iter().enumerate() {
        let id = s.alloc_all(1, len).unwrap();
        s.put_all(id, &std::vec![i as u8 + 1; usize::from(len)])
            .unwrap();
    }
    s.put_all(1, &ALL.to_le_bytes()).unwrap();
    save(&mut s);
    fram
}

const ALL: u32 = 0b111100;

/// For any image: an error, or a heap in which everything works and objects share no bytes.
pub(super) fn attack<P: Promise>(fram: &mut RamFram<SIZE>) {
    let Ok(mut s) = open::<_, P>(&mut *fram, &CONFIG) else {
        return;
    };
    let Ok(root) = reachable(&mut s) else { return };
    let mut before = Vec::new();
    for id in 2..=s.objects() {
        if root >> id & 1 != 0
            && let Ok(bytes) = s.get_all(id)
        {
            before.push((id, bytes));
        }
    }
    // New objects take no block of another one.
    let mut mine = Vec::new();
    for len in [1, 30, 9, 100] {
        if let Ok(id) = s.alloc_all(1, len) {
            assert!(root >> id & 1 == 0 || id > 31, "{id} is taken");
            s.put_all(id, &std::vec![0xD7; usize::from(len)]).unwrap();
            mine.push((id, std::vec![0xD7; usize::from(len)]));
        }
    }
    for (id, bytes) in before.iter().chain(&mine) {
        assert_eq!(s.get_all(*id).as_ref(), Ok(bytes), "object {id}");
    }
    // Nor does writing one touch another one.
    for i in 0..before.len() {
        let (id, bytes) = &mut before[i];
        bytes.iter_mut().for_each(|b| *b ^= 0x55);
        let (id, bytes) = (*id, bytes.clone());
        match s.put_all(id, &bytes) {
            Ok(()) => {}
            Err(Error::Full) if P::SNAPSHOT => before[i].1 = s.get_all(id).unwrap(),
            Err(e) => panic!("{e:?}"),
        }
        for (id, bytes) in before.iter().chain(&mine) {
            assert_eq!(s.get_all(*id).as_ref(), Ok(bytes), "object {id}");
        }
    }
    for (id, _) in &mine {
        let freed = s.free_all(*id);
        assert!(freed.is_ok(), "{freed:?}");
    }
    save(&mut s);
    for (id, bytes) in &before {
        assert_eq!(s.get_all(*id).as_ref(), Ok(bytes), "object {id}");
    }
    let mut text = std::string::String::new();
    inspect::heap(fram.bytes(), &mut text).unwrap();
}

fn both(change: impl Fn(&mut [u8])) {
    let mut fram = image::<JustInTime>();
    change(&mut fram.bytes_mut()[..]);
    attack::<JustInTime>(&mut fram);
    let mut fram = image::<Snapshot>();
    change(&mut fram.bytes_mut()[..]);
    attack::<Snapshot>(&mut fram);
}

#[test]
fn any_byte_changed() {
    for at in (0..SIZE).step_by(if cfg!(miri) { 97 } else { 1 }) {
        for v in [0, 1, 0x7F, 0x80, 0xFE, 0xFF] {
            both(|b| b[at] = v);
            both(|b| b[at] ^= v);
        }
    }
}

/// Replaces each pair of bytes behind the superblock by each number that occurs somewhere.
#[test]
fn any_number_forged() {
    let numbers = (0..20).chain([40, 48, 50, 0x100, 0xFE00, 0xFEFF, 0xFF00, 0xFFFF]);
    for v in numbers {
        for at in (Superblock::BYTES..SIZE - 1).step_by(if cfg!(miri) { 302 } else { 2 }) {
            both(|b| b[at..at + 2].copy_from_slice(&(v as u16).to_le_bytes()));
        }
    }
}

/// Two entries name one block, or one names the inside of another's block.
#[test]
fn overlapping_blocks() {
    let table = Geometry::of(&CONFIG, SIZE).table() as usize;
    let entries = if cfg!(miri) { 2 } else { 12 };
    for from in 0..entries {
        for to in 0..entries {
            both(|b| b.copy_within(table + from * 4..table + from * 4 + 4, table + to * 4));
        }
    }
    // A block that object 2 keeps in its content, and that is whole.
    let forged = |b: &mut [u8]| {
        let map = Geometry::of(&CONFIG, SIZE);
        let entry = |b: &[u8], id: u16| {
            let at = map.entry(id).unwrap() as usize;
            u16::from_le_bytes([b[at + 2], b[at + 3]])
        };
        let outer = entry(b, 2);
        let at = map.unit(outer + 2) as usize;
        let mut check = Check::new(3, 8);
        check.add(&[9; 8]);
        b[at..at + 8].copy_from_slice(&[3, 0, 8, 0, 0, 0, 0, 0]);
        b[at + 6..at + 8].copy_from_slice(&check.finish().to_le_bytes());
        b[at + 8..at + 16].fill(9);
        let at = map.unit(outer) as usize;
        let mut check = Check::new(2, 40);
        check.add(&b[at + 8..at + 48]);
        b[at + 6..at + 8].copy_from_slice(&check.finish().to_le_bytes());
        let at = map.entry(3).unwrap() as usize;
        let inner = (outer + 2).to_le_bytes();
        b[at..at + 2].copy_from_slice(&inner);
        b[at + 2..at + 4].copy_from_slice(&inner);
    };
    both(forged);
    let mut fram = image::<JustInTime>();
    forged(&mut fram.bytes_mut()[..]);
    let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    assert!(s.get_all(2).is_ok());
    assert_eq!(s.get_all(3), Err(Error::Damaged { object: 3 }));
    assert_eq!(s.get_all(4).unwrap(), [3; 40], "the rest stays readable");
    assert_eq!(s.damage(), 1);
}

/// The block of object `damaged`, of `len` bytes, is not its own: neither a write nor a free of it
/// reaches another object, also one that is made later.
fn overlaps<P: Promise>(what: &str, (damaged, len): (u16, u16), change: impl Fn(&mut [u8], u16)) {
    for frees in [false, true] {
        let mut fram = image::<P>();
        let at = Geometry::of(&CONFIG, SIZE).entry(2).unwrap() as usize;
        let bytes = &mut fram.bytes_mut()[..];
        change(bytes, u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
        assert!(s.damage() > 0, "{what}");
        let mut kept: Vec<_> = (2..=5)
            .filter_map(|id| Some((id, s.get_all(id).ok()?)))
            .collect();
        for new in 0..2 {
            if new == 1 && frees {
                let mut f = Free::new(damaged, len);
                let _ = steps(&mut s, |s| s.free(&mut f));
            } else if new == 1 {
                let _ = s.put_all(damaged, &std::vec![0x5A; len.into()]);
            }
            save(&mut s);
            for len in [8, 40] {
                if let Ok(id) = s.alloc_all(1, len) {
                    s.put_all(id, &std::vec![0xD7; len.into()]).unwrap();
                    kept.push((id, std::vec![0xD7; len.into()]));
                }
            }
        }
        assert!(kept.len() > 3);
        for (id, bytes) in kept {
            assert_eq!(s.get_all(id), Ok(bytes), "{what}, {frees}, object {id}");
        }
    }
}

#[test]
fn a_damaged_object_shares_no_bytes_with_one_that_can_be_read() {
    fn each<P: Promise>() {
        let head = |b: &mut [u8], unit: u16, id: u16, len: u16| {
            let at = Geometry::of(&CONFIG, SIZE).unit(unit) as usize;
            b[at..at + 2].copy_from_slice(&id.to_le_bytes());
            b[at + 2..at + 4].copy_from_slice(&len.to_le_bytes());
        };
        let name = |b: &mut [u8], id: u16, unit: u16| {
            let at = Geometry::of(&CONFIG, SIZE).entry(id).unwrap() as usize;
            b[at..at + 2].copy_from_slice(&unit.to_le_bytes());
            b[at + 2..at + 4].copy_from_slice(&unit.to_le_bytes());
        };
        overlaps::<P>("reaches over the next", (2, 60), |b, outer| {
            head(b, outer, 2, 60);
        });
        overlaps::<P>("lies inside", (3, 8), |b, outer| {
            head(b, outer + 2, 3, 8);
            name(b, 3, outer + 2);
            let at = Geometry::of(&CONFIG, SIZE).unit(outer) as usize;
            let mut check = Check::new(2, 40);
            check.add(&b[at + 8..at + 48]);
            b[at + 6..at + 8].copy_from_slice(&check.finish().to_le_bytes());
        });
        overlaps::<P>("is named inside, without a header", (3, 8), |b, outer| {
            name(b, 3, outer + 2);
        });
        overlaps::<P>("claims what is free", (4, 40), |b, _| {
            // The last units of its block are free: a new object gets them.
            let map = Geometry::of(&CONFIG, SIZE);
            let at = map.entry(4).unwrap() as usize;
            let unit = u16::from_le_bytes([b[at], b[at + 1]]);
            b[map.unit(unit) as usize + 8] ^= 1;
            for unit in unit + 2..unit + 6 {
                b[map.bitmap() as usize + usize::from(unit - 1) / 8] &= !(1 << ((unit - 1) % 8));
            }
        });
        overlaps::<P>("names the same block", (3, 8), |b, outer| {
            name(b, 3, outer);
        });
    }
    each::<JustInTime>();
    each::<Snapshot>();
}

/// While damage is known, objects that nothing leads to are kept: they may belong to a damaged one.
/// Object 2 has a wrong length, over the block of such an object. It is freed or written: that
/// frees no unit of the other one.
fn keeps_what_a_wrong_length_covers<P: Promise>(frees: bool) {
    let mut fram = image::<P>();
    let kept = {
        let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
        s.put_all(1, &(ALL & !(1 << 3)).to_le_bytes()).unwrap();
        save(&mut s);
        s.get_all(3).unwrap()
    };
    let map = Geometry::of(&CONFIG, SIZE);
    let block = |b: &[u8], id: u16| {
        let at = map.entry(id).unwrap() as usize;
        map.unit(u16::from_le_bytes([b[at], b[at + 1]])) as usize
    };
    let bytes = &mut fram.bytes_mut()[..];
    let (two, three, four) = (block(bytes, 2), block(bytes, 3), block(bytes, 4));
    assert_eq!((three - two, four - two), (48, 64), "side by side");
    bytes[two + 2] = 56;
    // Only this one is noticed.
    bytes[four] ^= 0x40;
    let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
    assert_eq!((s.damage(), s.get_all(3)), (2, Ok(kept.clone())));
    if frees {
        let mut f = Free::new(2, 40);
        steps(&mut s, |s| s.free(&mut f)).unwrap();
    } else {
        s.put_all(2, &[7; 40]).unwrap();
    }
    save(&mut s);
    // All space is used.
    for len in [200, 100, 40, 24, 8] {
        while let Ok(id) = s.alloc_all(1, len) {
            s.put_all(id, &std::vec![0xD7; len.into()]).unwrap();
        }
    }
    assert_eq!(s.get_all(3), Ok(kept), "{frees}");
}

#[test]
fn a_wrong_length_frees_nothing() {
    keeps_what_a_wrong_length_covers::<JustInTime>(true);
    keeps_what_a_wrong_length_covers::<Snapshot>(true);
    keeps_what_a_wrong_length_covers::<Snapshot>(false);
}

impl Geometry {
    fn of(config: &Config, size: usize) -> Geometry {
        Geometry::largest(config, size as u32).unwrap()
    }
}

/// Each error names the damaged object, and no other object suffers. Its remaining bytes stay as
/// they are.
#[test]
fn damage_is_named() {
    for id in 2..=5u16 {
        for part in 0..4 {
            let mut seen = [0; SIZE];
            let mut fram = image::<JustInTime>();
            let map = Geometry::of(&CONFIG, SIZE);
            let e = map.entry(id).unwrap() as usize;
            let unit = u16::from_le_bytes([fram.bytes()[e], fram.bytes()[e + 1]]);
            let block = map.unit(unit) as usize;
            let at = match part {
                0 => e,
                1 => block,
                // No unit has this number.
                3 => e + 3,
                // Of an object without content, the check.
                _ if id == 5 => block + 7,
                _ => block + 10,
            };
            fram.bytes_mut()[at] ^= 0x40;
            let left = *fram.bytes();
            let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
            s.image.medium().read(0, &mut seen).unwrap();
            for n in [e..e + 4, block..block + 8] {
                assert_eq!(seen[n.clone()], left[n], "part {part}");
            }
            for other in 2..=5 {
                let found = s.get_all(other);
                if other == id {
                    assert_eq!(found, Err(Error::Damaged { object: id }), "part {part}");
                } else {
                    assert!(found.is_ok(), "{other} with {id}: {found:?}");
                }
            }
            // It can be given back, and its number used again.
            s.free_all(id).unwrap();
            s.put_all(1, &(ALL & !(1 << id)).to_le_bytes()).unwrap();
            save(&mut s);
            let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
            audit(&mut s, ALL & !(1 << id));
        }
    }
}

/// Blocks swapped by something else than the heap: their headers reveal it.
#[test]
fn swapped_and_zeroed_blocks() {
    let map = Geometry::of(&CONFIG, SIZE);
    for zero in [false, true] {
        let mut fram = image::<JustInTime>();
        let b = fram.bytes_mut();
        let unit = |b: &[u8], id| {
            let e = map.entry(id).unwrap() as usize;
            map.unit(u16::from_le_bytes([b[e], b[e + 1]])) as usize
        };
        let (two, four) = (unit(b, 2), unit(b, 4));
        if zero {
            b[two..two + 48].fill(0);
            b[four + 6..four + 48].fill(0);
        } else {
            for i in 0..48 {
                b.swap(two + i, four + i);
            }
        }
        let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
        for id in [2, 4] {
            assert_eq!(s.get_all(id), Err(Error::Damaged { object: id }));
        }
        assert!(s.get_all(3).is_ok());
    }
}

#[test]
fn damaged_records_are_refused() {
    for promise in [false, true] {
        for state in [0u8, 1, 2, 3, 4, 0xFF] {
            let mut fram = if promise {
                image::<Snapshot>()
            } else {
                image::<JustInTime>()
            };
            // Both records, with a right checksum.
            for slot in 0..2usize {
                let at = crate::store::image::RECORDS as usize + slot * 16;
                let b = &mut fram.bytes_mut()[at..at + 12];
                b[4] = state;
                let crc = nvmem::crc::crc32(&b[..8]);
                b[8..].copy_from_slice(&crc.to_le_bytes());
            }
            let found = if promise {
                open::<_, Snapshot>(&mut fram, &CONFIG).err()
            } else {
                open::<_, JustInTime>(&mut fram, &CONFIG).err()
            };
            let expected = match (promise, state) {
                (false, 2) | (true, 3) => None,
                (false, 1) => Some(OpenError::Interrupted),
                _ => Some(OpenError::Damaged(Component::Record)),
            };
            assert_eq!(found, expected, "{promise} {state}");
        }
    }
}

/// A medium whose bus fails after so many calls.
struct Flaky<'m> {
    fram: &'m mut RamFram<SIZE>,
    left: u32,
    /// Half of a failing write arrives.
    torn: bool,
}

impl Medium for Flaky<'_> {
    type Error = &'static str;
    const CONTRACT: nvmem::device::Contract = <RamFram<SIZE> as Medium>::CONTRACT;
    fn capacity(&self) -> u32 {
        SIZE as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), &'static str> {
        self.left = self.left.checked_sub(1).ok_or("bus")?;
        self.fram.read(at, buf).map_err(|_| "range")
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), &'static str> {
        let Some(left) = self.left.checked_sub(1) else {
            if self.torn {
                self.fram
                    .write(at, &bytes[..bytes.len() / 2])
                    .map_err(|_| "range")?;
            }
            return Err("bus");
        };
        self.left = left;
        self.fram.write(at, bytes).map_err(|_| "range")
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), &'static str> {
        Ok(())
    }
}

fn operations<S: Medium, P: Promise>(s: &mut Store<S, P>) -> Result<(), Error<S::Error>> {
    let a = s.alloc_all(1, 20)?;
    s.put_all(a, &[8; 20])?;
    s.put_all(2, &[7; 40])?;
    s.free_all(4)?;
    s.put_all(1, &0b101100u32.to_le_bytes())?;
    Ok(())
}

/// The bus fails at each call in turn, then works again. So does the heap: other objects are
/// unchanged, a commit finishes, and the next boot finds a heap.
fn bus_errors<P: Promise>() {
    let mut failed = 0;
    let (step, least) = if cfg!(miri) { (9, 4) } else { (1, 40) };
    for torn in [false, true] {
        for n in (0..).step_by(step) {
            let mut fram = image::<P>();
            let mut s = open::<_, P>(
                Flaky {
                    fram: &mut fram,
                    left: u32::MAX,
                    torn,
                },
                &CONFIG,
            )
            .unwrap();
            s.image.medium().left = n;
            let mut first = operations(&mut s);
            if first.is_ok() && P::SNAPSHOT {
                first = s.commit_all();
            }
            let done = first.is_ok();
            failed += u32::from(!done);
            assert!(done || first == Err(Error::Medium("bus")), "{first:?}");
            s.image.medium().left = u32::MAX;
            if P::SNAPSHOT && s.state & UNFINISHED != 0 {
                assert_eq!(s.alloc_all(1, 4), Err(Error::Unfinished));
                assert_eq!(s.put_all(3, &[4; 8]), Err(Error::Unfinished));
                assert_eq!(s.free_all(3), Err(Error::Unfinished));
            }
            assert_eq!(s.get_all(3).unwrap(), [2; 8], "{n}");
            if P::SNAPSHOT {
                s.commit_all().unwrap();
            }
            // Object 2 may be half written: its owner in RAM writes it again.
            s.put_all(2, &[7; 40]).unwrap();
            let root = if done { 0b101100 } else { 0b001100u32 };
            s.put_all(1, &root.to_le_bytes()).unwrap();
            save(&mut s);
            let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
            assert_eq!(s.get_all(2).unwrap(), [7; 40]);
            assert_eq!(s.get_all(3).unwrap(), [2; 8]);
            audit(&mut s, root);
            if done {
                break;
            }
        }
    }
    assert!(failed > least, "{failed}");
}

#[test]
fn bus_errors_leave_a_heap() {
    bus_errors::<JustInTime>();
    bus_errors::<Snapshot>();
}

/// An error in open writes nothing that the next one does not know.
#[test]
fn bus_errors_in_open() {
    for n in 0.. {
        let mut fram = image::<Snapshot>();
        let flaky = Flaky {
            fram: &mut fram,
            left: n,
            torn: true,
        };
        let done = open::<_, Snapshot>(flaky, &CONFIG).is_ok();
        let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
        audit(&mut s, ALL);
        if done {
            assert!(n > 10);
            break;
        }
    }
}

/// Random bytes behind a right header, and random edits of a right image.
#[test]
fn random_images() {
    use proptest::test_runner::{Config as Runner, TestRunner};
    let mut runner = TestRunner::new(Runner {
        cases: if cfg!(miri) { 5 } else { 3000 },
        failure_persistence: None,
        ..Runner::default()
    });
    let edits = proptest::collection::vec((0..SIZE, 0..=255u8), 1..12);
    runner
        .run(&edits, |edits| {
            both(|b| {
                for (at, v) in &edits {
                    b[*at] = *v;
                }
            });
            Ok(())
        })
        .unwrap();
    let bytes = proptest::collection::vec(0..=255u8, SIZE - crate::store::image::APPLIED as usize);
    runner
        .run(&bytes, |bytes| {
            both(|b| b[crate::store::image::APPLIED as usize..].copy_from_slice(&bytes));
            Ok(())
        })
        .unwrap();
}

/// A block that ends one unit behind the last one is refused, also where the medium continues.
#[test]
fn no_block_reaches_beyond_the_end() {
    let map = Geometry::of(&CONFIG, SIZE);
    for (units, expected) in [(1, true), (2, false)] {
        let mut fram = RamFram::<{ SIZE + 16 }>::filled(0);
        let b = fram.bytes_mut();
        b[..SIZE].copy_from_slice(image::<JustInTime>().bytes());
        // Without content it has one unit, with a byte two.
        let len = units - 1;
        let at = map.unit(map.units) as usize;
        let mut check = Check::new(3, len);
        check.add(&[0; 1][..usize::from(len)]);
        b[at..at + 16].fill(0);
        for (i, v) in [3, len, 0, check.finish()].into_iter().enumerate() {
            b[at + 2 * i..at + 2 * i + 2].copy_from_slice(&v.to_le_bytes());
        }
        let entry = map.entry(3).unwrap() as usize;
        for half in [entry, entry + 2] {
            b[half..half + 2].copy_from_slice(&map.units.to_le_bytes());
        }
        let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
        let found = s.get_all(3);
        if expected {
            assert_eq!(found, Ok(Vec::new()));
        } else {
            assert_eq!(found, Err(Error::Damaged { object: 3 }));
        }
    }
}
