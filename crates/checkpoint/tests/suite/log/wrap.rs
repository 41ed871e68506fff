//! Record numbers and sequence numbers wrap.

use super::{HEAP_USED, L1, State, TheLog, open};
use checkpoint::Store;
use nvmem::device::Medium;
use nvmem::ram::RamFram;

/// Gives the only record of a log other numbers.
pub fn renumbered(bytes: &mut [u8], number: u32, sequence: u32) {
    let mut records = bytes.chunks_mut(128).filter(|b| b.starts_with(b"RLL2"));
    let record = records.next().expect("a record");
    assert!(records.next().is_none(), "one record");
    let mut set = |at: usize, v: u32| record[at..at + 4].copy_from_slice(&v.to_le_bytes());
    set(4, number);
    set(8, number);
    set(12, sequence);
    let end = 48 + usize::from(record[44]).next_multiple_of(4);
    assert_eq!(record[45], 0, "the runs are short");
    let crc = nvmem::crc::crc32(&record[..end]);
    record[end..end + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Checkpoints by boots that each take a different number of them.
fn life<D: Medium>(mut d: D, start: u32) {
    let name = D::CONTRACT.name;
    let mut sequence = start;
    for n in 1..if cfg!(miri) { 5 } else { 30 } {
        let mut log = open(&mut d);
        let mut found = State::filled(0xA5);
        let r = log
            .load(&mut found.memory(HEAP_USED))
            .unwrap_or_else(|e| panic!("{name} {start:#x} {n}: {e}"));
        assert_eq!(
            (r.context, r.sequence),
            (n - 1, sequence),
            "{name} {start:#x}"
        );
        assert_eq!((r.damaged, r.unfinished), (0, 0));
        assert!(
            found == State::nth(n - 1).over(0xA5),
            "{name} {start:#x} {n}"
        );
        for _ in 0..n % 3 {
            log.save(&State::nth(n + 7).memory(HEAP_USED), 99).unwrap();
            sequence = sequence.wrapping_add(1);
        }
        log.save(&State::nth(n).memory(HEAP_USED), n).unwrap();
        sequence = sequence.wrapping_add(1);
    }
}

#[test]
fn numbers_wrap() {
    for back in 0..if cfg!(miri) { 2 } else { 24 } {
        for end in [u32::MAX, i32::MAX.cast_unsigned()] {
            let start = end - back;
            let blank = L1::new();
            let mut log: TheLog<_> = open(blank);
            log.save(&State::nth(0).memory(HEAP_USED), 0).unwrap();
            let mut flash = log.into_medium();
            renumbered(flash.bytes_mut(), start, start);
            life(flash, start);
            let mut log: TheLog<_> = open(RamFram::<5000>::filled(0));
            log.save(&State::nth(0).memory(HEAP_USED), 0).unwrap();
            let mut fram = log.into_medium();
            renumbered(fram.bytes_mut(), start, start);
            life(fram, start);
        }
    }
}
