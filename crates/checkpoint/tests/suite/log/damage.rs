//! Flipped bits and hostile bytes.

use super::PROGRAM;
use checkpoint::{Error, Log, Memory, Store};
use nvmem::device::{Contract, Medium, Misuse};
use nvmem::ram::{RamFram, RamNor};
use proptest::prelude::*;

/// Bytes of a log of few and small cells.
fn two_checkpoints() -> RamFram<1600> {
    let mut d = RamFram::<1600>::filled(0);
    let mut log = small(&mut d);
    for n in [1, 2] {
        let (mut a, mut b) = ([n; 40], [n + 10; 32]);
        b[..16].fill(9);
        let memory = Memory::new(&mut a, &mut [], &mut b).stack_from(3);
        log.save(&memory, n.into()).unwrap();
    }
    d
}

fn small<D: Medium>(d: D) -> Log<D, 6, 10, 32> {
    let all = 0..d.capacity();
    Log::open(d, all, PROGRAM).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_flipped_bit_is_found_or_harmless() {
    let whole = two_checkpoints();
    let (mut harmless, mut older) = (0, 0);
    for bit in (0..1600 * 8).step_by(if cfg!(miri) { 607 } else { 1 }) {
        let mut d = whole.clone();
        d.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        let (mut a, mut b) = ([0; 40], [0; 32]);
        let r = small(&mut d).load(&mut Memory::new(&mut a, &mut [], &mut b));
        let r = r.unwrap_or_else(|e| panic!("bit {bit}: {e}"));
        let n = r.context as u8;
        assert_eq!(a, [n; 40], "bit {bit}");
        assert_eq!(b[3..16], [9; 13], "bit {bit}");
        assert_eq!(
            (b[..3].to_vec(), b[16..].to_vec()),
            (vec![0; 3], vec![n + 10; 16])
        );
        if n == 2 {
            harmless += 1;
        } else {
            assert!(r.damaged + r.unfinished > 0, "bit {bit} is not reported");
            older += 1;
        }
    }
    if cfg!(miri) {
        assert!(older > 0 && harmless > 0);
        return;
    }
    // Three cells, and a record with a place for each.
    assert_eq!(older, (3 * 32 + 48 + 12 + 4) * 8, "{harmless}");
}

/// On flash, with copies and their markers, by two boots of two checkpoints.
#[test]
fn every_flipped_bit_of_flash_is_found_or_harmless() {
    let mut whole = RamNor::<14, 256, 8>::new();
    let state = |n: u8| {
        let (mut a, b) = ([n; 40], [n / 2 + 10; 32]);
        a[..32].fill(7);
        (a, b)
    };
    for n in 1..5 {
        let mut log = small(&mut whole);
        let (mut a, mut b) = state(n);
        log.load(&mut Memory::new(&mut a, &mut [], &mut b)).ok();
        (a, b) = state(n);
        for _ in 0..n % 2 + 1 {
            let memory = Memory::new(&mut a, &mut [], &mut b);
            log.save(&memory, n.into()).unwrap();
        }
    }
    let mut older = 0;
    for bit in (0..14 * 256 * 8).step_by(if cfg!(miri) { 1009 } else { 1 }) {
        let mut d = whole.clone();
        d.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        let (mut a, mut b) = ([0; 40], [0; 32]);
        let r = small(&mut d).load(&mut Memory::new(&mut a, &mut [], &mut b));
        let r = r.unwrap_or_else(|e| panic!("bit {bit}: {e}"));
        assert_eq!((a, b), state(r.context as u8), "bit {bit}");
        if r.context != 4 {
            assert!(r.damaged + r.unfinished > 0, "bit {bit} is not reported");
            older += 1;
        }
    }
    // Three cells, and a record that describes them.
    assert!(cfg!(miri) || older == (3 * 32 + 48 + 16 + 4) * 8, "{older}");
}

/// A checkpoint whose places do not fit in a record, so it writes manifests.
const CELLS: usize = 28;
type Large<D> = Log<D, CELLS, 14, 32>;

fn large<D: Medium>(d: D) -> Large<D> {
    let all = 0..d.capacity();
    Log::open(d, all, PROGRAM).unwrap_or_else(|e| panic!("{e}"))
}

/// The content of memory at a checkpoint: all cells differ, and most change each time.
fn nth(n: u32) -> [u8; CELLS * 32] {
    std::array::from_fn(|i| (i / 32) as u8 * 8 + if i / 32 % 5 > 0 { n as u8 } else { 0 })
}

fn with_manifests() -> RamFram<3840> {
    let mut d = RamFram::<3840>::filled(0);
    let mut log = large(&mut d);
    for n in 1..4 {
        let memory = &mut nth(n);
        log.save(&Memory::new(memory, &mut [], &mut []), n).unwrap();
    }
    d
}

/// Only the manifest's checksum covers its cell numbers; each place has a check of its own.
#[test]
fn every_flipped_bit_of_a_manifest_is_found_or_harmless() {
    let whole = with_manifests();
    let (mut older, mut shared) = (0, 0);
    for bit in (0..3840 * 8).step_by(if cfg!(miri) { 1511 } else { 1 }) {
        let mut d = whole.clone();
        d.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        let mut found = [0xA5; CELLS * 32];
        let r = large(&mut d).load(&mut Memory::new(&mut found, &mut [], &mut []));
        let Ok(r) = r else {
            // A cell that no checkpoint has changed.
            assert_eq!((r, found), (Err(Error::Damaged), [0xA5; CELLS * 32]));
            shared += 1;
            continue;
        };
        assert!(found == nth(r.context), "bit {bit}: a mixture");
        if r.context != 3 {
            assert!(r.damaged + r.unfinished > 0, "bit {bit} is not reported");
            older += 1;
        }
    }
    // 22 cells change each time, 5 never do, and one is zero. Two manifests belong to both
    // checkpoints.
    assert!(cfg!(miri) || shared == (5 + 2) * 32 * 8, "{shared}");
    assert!(cfg!(miri) || older > (22 + 1) * 32 * 8, "{older}");
}

/// A bus that reads the record at `at` right once, and then returns another record.
struct Misread {
    d: RamFram<3840>,
    at: u32,
    other: u32,
    reads: u32,
}

impl Medium for Misread {
    type Error = Misuse;
    const CONTRACT: Contract = RamFram::<3840>::CONTRACT;
    fn capacity(&self) -> u32 {
        self.d.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.reads += u32::from(at == self.at);
        let wrong = at == self.at && self.reads == 2;
        self.d.read(if wrong { self.other } else { at }, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.d.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.d.erase(from, to)
    }
}

/// The places of one record with the head of another one would give a mixture.
#[test]
fn a_record_that_reads_as_another_one() {
    for (at, other) in [(0, 128), (128, 0)] {
        let mut d = RamFram::<3840>::filled(0);
        let mut log = large(&mut d);
        for n in 1..3 {
            let mut memory = nth(n);
            memory[64..].fill(0);
            log.save(&Memory::new(&mut memory, &mut [], &mut []), n)
                .unwrap();
        }
        let mut log = large(Misread {
            d,
            at,
            other,
            reads: 0,
        });
        let mut found = [0xA5; CELLS * 32];
        let r = log.load(&mut Memory::new(&mut found, &mut [], &mut []));
        let r = r.unwrap_or_else(|e| panic!("{e}"));
        assert!(found[..64] == nth(r.context)[..64], "a mixture");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]
    /// Invalid places with a matching checksum.
    #[test]
    fn hostile_records(
        fields in prop::collection::vec((0..12usize, any::<u32>()), 0..4),
        places in prop::collection::vec(prop_oneof![0..20u8, any::<u8>()], 0..76),
        noise in prop::collection::vec((256..1600usize, any::<u8>()), 0..4),
    ) {
        let mut d = two_checkpoints();
        {
            let bytes = d.bytes_mut();
            for (at, byte) in noise {
                bytes[at] = byte;
            }
            let record = &mut bytes[..128];
            record[44..46].copy_from_slice(&(places.len() as u16).to_le_bytes());
            record[48..48 + places.len()].copy_from_slice(&places);
            for (i, f) in fields {
                record[4 * i..4 * i + 4].copy_from_slice(&f.to_le_bytes());
            }
            let len = usize::from(u16::from_le_bytes([record[44], record[45]]));
            let end = (48 + len).next_multiple_of(4).min(124);
            let crc = nvmem::crc::crc32(&record[..end]);
            record[end..end + 4].copy_from_slice(&crc.to_le_bytes());
        }
        let (mut a, mut b) = ([0xA5; 40], [0xA5; 32]);
        let mut log = small(&mut d);
        if log.load(&mut Memory::new(&mut a, &mut [], &mut b)).is_err() {
            prop_assert_eq!((a, b), ([0xA5; 40], [0xA5; 32]));
        }
        log.save(&Memory::new(&mut a, &mut [], &mut b), 77).unwrap();
        let r = log.load(&mut Memory::new(&mut a, &mut [], &mut b)).unwrap();
        prop_assert_eq!(r.context, 77);
    }
}
