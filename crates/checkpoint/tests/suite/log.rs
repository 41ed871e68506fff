//! The log without power cuts: restored content, errors, wear, damage, hostile bytes. Cuts are in
//! `crash`.

mod damage;
pub mod room;
mod worst;
pub mod wrap;

use crate::support::{Failing, State};
use checkpoint::{Error, Log, Memory, Store};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{Buffered32, InOrder16, Region};

const PROGRAM: u64 = 7;

/// STM32L1: 256 bytes erased to zeros, programmed by half a page of 128.
type L1 = RamNor<60, 256, 128, 0x00>;
/// STM32F0, MSPM0: small words.
type F0 = RamNor<9, 2048, 4>;
type Bytewise = RamNor<12, 1024, 1>;
type TheLog<D> = Log<D, 12, 64>;

/// The bytes of the heap that are used.
const HEAP_USED: usize = 323;

impl State {
    /// Some of it stays the same for a while, some of it is zero.
    fn nth(n: u32) -> Self {
        let mut s = State::filled(0);
        let mix = |n: u32, i: usize| {
            (n.wrapping_mul(2_654_435_761)
                .wrapping_add(i as u32 * 40_503)
                >> 13) as u8
        };
        for (i, b) in s.statics.iter_mut().enumerate() {
            *b = mix(n / 3, i);
        }
        for (i, b) in s.heap.iter_mut().enumerate() {
            *b = if i / 128 == n as usize % 3 {
                0
            } else {
                mix(i as u32 / 128 * (n / 5), i)
            };
        }
        for (i, b) in s.stack.iter_mut().enumerate() {
            *b = mix(n, i);
        }
        s
    }
    /// The content that a restore brings back.
    fn over(&self, byte: u8) -> Self {
        let mut s = State::filled(byte);
        s.statics = self.statics;
        s.heap[..HEAP_USED].copy_from_slice(&self.heap[..HEAP_USED]);
        s.stack[150..].copy_from_slice(&self.stack[150..]);
        s
    }
}

fn open<D: Medium>(d: D) -> TheLog<D> {
    let all = 0..d.capacity();
    Log::open(d, all, PROGRAM).unwrap_or_else(|e| panic!("{e}"))
}

fn life<D: Medium>(mut d: D) {
    let name = D::CONTRACT.name;
    let none = open(&mut d).load(&mut State::filled(0).memory(HEAP_USED));
    assert!(matches!(none, Err(Error::NoImage)), "{name}");
    let mut sequence = 0;
    for n in 1..if cfg!(miri) { 4 } else { 60 } {
        let mut log = open(&mut d);
        for again in 0..n % 4 {
            log.save(&State::nth(again * n).memory(HEAP_USED), 0)
                .unwrap();
            sequence += 1;
        }
        log.save(&State::nth(n).memory(HEAP_USED), n).unwrap();
        sequence += 1;
        let mut found = State::filled(0xA5);
        let r = open(&mut d).load(&mut found.memory(HEAP_USED)).unwrap();
        assert_eq!((r.context, r.damaged, r.unfinished), (n, 0, 0), "{name}");
        assert_eq!(r.sequence, sequence);
        assert!(found == State::nth(n).over(0xA5), "{name} {n}");
    }
}

#[test]
fn byte_media() {
    life(RamFram::<5000>::filled(0));
    life(RamFram::<5000>::filled(0xFF));
    life(RamMram::<5008>::filled(0x77));
}

#[test]
fn flash() {
    life(L1::new());
    life(F0::new());
    life(Bytewise::new());
}

#[test]
fn mapped() {
    let mut memory = [[const { core::mem::MaybeUninit::<u64>::new(0) }; 700]; 2];
    let [first, second] = &mut memory;
    life(Region::<InOrder16>::new(first));
    life(Region::<Buffered32>::new(second));
}

#[test]
fn too_small_says_how_much() {
    let mut state = State::nth(1);
    let mut log = open(RamNor::<16, 256, 4>::new());
    let Err(Error::TooSmall { needed }) = log.save(&state.memory(HEAP_USED), 0) else {
        panic!("8 cells need more than 16 in units of 2")
    };
    // Nothing was written, and the reported size is enough for any number of checkpoints.
    assert!(log.into_medium().bytes().iter().all(|b| *b == 0xFF));
    assert!(needed <= 60 * 256, "{needed}");
    let mut log = TheLog::open(RamNor::<60, 256, 4>::new(), 0..needed, 7).unwrap();
    for n in 0..if cfg!(miri) { 3 } else { 200 } {
        log.save(&State::nth(n * 7).memory(HEAP_USED), n).unwrap();
    }
    let tiny = TheLog::open(RamFram::<300>::filled(0), 0..300, 7).err();
    assert_eq!(tiny, Some(Error::TooSmall { needed: 2304 }));
    assert_eq!(Log::<RamFram<80>, 12, 64>::bytes(u32::MAX), u32::MAX);
    let mut less = Log::<_, 11, 64>::open(L1::new(), 0..60 * 256, 7).unwrap();
    let refused = Log::<L1, 4, 64>::open(L1::new(), 0..60 * 256, 7)
        .unwrap()
        .save(&state.memory(HEAP_USED), 0);
    assert_eq!(refused, Err(Error::TablesTooSmall { cells: 9 }));
    less.save(&state.memory(HEAP_USED), 0).unwrap();
}

#[test]
fn another_program_or_memory() {
    let mut d = RamFram::<5000>::filled(0);
    open(&mut d)
        .save(&State::nth(1).memory(HEAP_USED), 0)
        .unwrap();
    let mut found = State::filled(0xA5);
    let mut other = TheLog::open(&mut d, 0..5000, 8).unwrap();
    let refused = other.load(&mut found.memory(HEAP_USED));
    assert_eq!(refused, Err(Error::OtherProgram { found: 7 }));
    let (mut a, mut b) = ([0; 400], [0; 501]);
    let moved = open(&mut d).load(&mut Memory::new(&mut a, &mut b, &mut []));
    assert_eq!(moved, Err(Error::OtherMemory));
    assert_eq!(found, State::filled(0xA5));
    assert_eq!((a, b), ([0; 400], [0; 501]));
    // A new program overwrites it.
    let mut other = TheLog::open(&mut d, 0..5000, 8).unwrap();
    other.save(&State::nth(2).memory(HEAP_USED), 5).unwrap();
    let r = TheLog::open(&mut d, 0..5000, 8)
        .unwrap()
        .load(&mut found.memory(HEAP_USED));
    assert_eq!(r.unwrap().context, 5);
}

#[test]
fn a_medium_that_fails_in_the_middle() {
    let mut failed = 0;
    for left in (0..30).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let d = Failing {
            d: L1::new(),
            left: 1000,
        };
        let mut log = open(d);
        log.save(&State::nth(1).memory(HEAP_USED), 1).unwrap();
        log.save(&State::nth(2).memory(HEAP_USED), 2).unwrap();
        let mut d = log.into_medium();
        d.left = left;
        let mut log = open(d);
        let r = log.save(&State::nth(3).memory(HEAP_USED), 3);
        let mut d = log.into_medium();
        d.left = 1000;
        let mut log = open(d);
        let mut found = State::filled(0);
        let back = log.load(&mut found.memory(HEAP_USED)).unwrap();
        assert_eq!(back.context, if r.is_ok() { 3 } else { 2 });
        assert_eq!(found, State::nth(back.context).over(0));
        if let Err(e) = r {
            assert_eq!(e, Error::Medium("bus"));
            failed += 1;
            // It may be tried again.
            log.save(&State::nth(4).memory(HEAP_USED), 4).unwrap();
            assert_eq!(log.load(&mut found.memory(HEAP_USED)).unwrap().context, 4);
        }
    }
    assert!(failed > if cfg!(miri) { 0 } else { 5 }, "{failed}");
}
