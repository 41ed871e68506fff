//! Images without power cuts: modes, errors, wear, wrapping, damage, hostile bytes. Cuts are in
//! `crash`.

use crate::support::{Failing, State};
use checkpoint::{
    CopyIfChange, Error, Extent, Full, Images, Memory, Mode, Slots, Split, Stack, Store,
};
use nvmem::device::{Contract, Medium, Misuse};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{Buffered32, InOrder16, InOrder32, Region};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};

const PROGRAM: u64 = 7;
/// Bytes of an image's head.
const HEAD: usize = 36;

/// STM32L1: 256 bytes erased to zeros, programmed by half a page of 128.
type L1 = RamNor<24, 256, 128, 0x00>;
/// STM32F0, MSPM0: small words.
type F0 = RamNor<3, 2048, 4>;
/// A serial flash that is programmed by pages only.
type Serial = RamNor<3, 4096, 256>;
type Bytewise = RamNor<12, 256, 1>;

/// The bytes of the heap that are used.
const HEAP_USED: usize = 123;

impl State {
    fn mixed(n: u32) -> Self {
        let mut s = State::filled(0);
        for (i, b) in s.bytes().enumerate() {
            *b = (n
                .wrapping_mul(2_654_435_761)
                .wrapping_add(i as u32 * 40_503)
                >> 13) as u8;
        }
        s
    }
    fn bytes(&mut self) -> impl Iterator<Item = &mut u8> {
        self.statics
            .iter_mut()
            .chain(&mut self.heap)
            .chain(&mut self.stack)
    }
}

fn open<D: Medium, const N: usize>(d: D) -> Images<D, N> {
    let all = 0..d.capacity() / D::CONTRACT.alignment() * D::CONTRACT.alignment();
    Images::open(d, all, PROGRAM).unwrap_or_else(|e| panic!("{e}"))
}

/// Takes checkpoints, and restores each in the next boot.
fn life<D: Medium, M: Mode, const N: usize>(mut d: D, mode: &M, expect: fn(&State, &mut State)) {
    let mut boots = open::<_, N>(&mut d);
    let none = boots.restore(&mut State::filled(0).memory(HEAP_USED));
    assert!(matches!(none, Err(Error::NoImage)), "{}", D::CONTRACT.name);
    for n in 1..if cfg!(miri) { 4 } else { 20 } {
        let mut images = open::<_, N>(&mut d);
        for again in 0..n % 3 {
            images
                .checkpoint(mode, &State::mixed(again).memory(HEAP_USED), 0)
                .unwrap();
        }
        let mut state = State::mixed(n);
        images
            .checkpoint(mode, &state.memory(HEAP_USED), n)
            .unwrap();
        let mut found = State::filled(0xA5);
        let r = open::<_, N>(&mut d)
            .restore(&mut found.memory(HEAP_USED))
            .unwrap();
        assert_eq!((r.context, r.damaged, r.unfinished), (n, 0, 0));
        let mut wanted = State::filled(0xA5);
        expect(&state, &mut wanted);
        assert!(found == wanted, "{} {n}", D::CONTRACT.name);
        state.memory(HEAP_USED);
    }
}

fn modes<D: Medium, const N: usize>(blank: impl Fn() -> D) {
    let full = |s: &State, to: &mut State| *to = s.clone();
    let stack = |s: &State, to: &mut State| {
        to.statics = s.statics;
        to.stack[150..].copy_from_slice(&s.stack[150..]);
    };
    let split = |s: &State, to: &mut State| {
        to.statics = s.statics;
        to.heap[..HEAP_USED].copy_from_slice(&s.heap[..HEAP_USED]);
        to.stack[150..].copy_from_slice(&s.stack[150..]);
    };
    life::<_, _, N>(blank(), &Full, full);
    life::<_, _, N>(blank(), &Stack, stack);
    life::<_, _, N>(blank(), &Split, split);
    life::<_, _, N>(blank(), &CopyIfChange(Full), full);
    life::<_, _, N>(blank(), &CopyIfChange(Split), split);
}

#[test]
fn byte_media() {
    modes::<_, 2>(RamFram::<2400>::filled.with(0));
    modes::<_, 3>(RamFram::<3600>::filled.with(0xFF));
    modes::<_, 2>(RamMram::<2400>::filled.with(0x77));
}

/// Two stores hold different states, and both are restored.
#[test]
fn stores_of_any_mode() {
    let mut small = RamFram::<2400>::filled(0);
    let mut flash = L1::new();
    let slots = Slots::new(open::<_, 2>(&mut small), Split);
    let others = Slots::new(open::<_, 3>(&mut flash), CopyIfChange(Full));
    fn twice<S: Store>(mut store: S, from: u32) {
        let none = store.load(&mut State::filled(0).memory(HEAP_USED));
        assert!(matches!(none, Err(Error::NoImage)));
        for n in from..from + 3 {
            store.save(&State::mixed(n).memory(HEAP_USED), n).unwrap();
            let mut found = State::filled(0xA5);
            let restored = store.load(&mut found.memory(HEAP_USED)).unwrap();
            assert_eq!(restored.context, n);
            assert!(found.statics == State::mixed(n).statics);
            assert!(found.stack[150..] == State::mixed(n).stack[150..]);
        }
    }
    twice(slots, 7);
    twice(others, 70);
    let mut again = Slots::new(open::<_, 2>(&mut small), Full);
    let found = again.load(&mut State::filled(0).memory(HEAP_USED)).unwrap();
    assert_eq!((found.context, found.damaged), (9, 0));
    assert_eq!(
        again
            .into_images()
            .restore(&mut State::filled(0).memory(HEAP_USED)),
        Ok(found)
    );
}

trait With: Fn(u8) -> Self::Out {
    type Out;
    fn with(self, byte: u8) -> impl Fn() -> Self::Out;
}
impl<F: Fn(u8) -> O, O> With for F {
    type Out = O;
    fn with(self, byte: u8) -> impl Fn() -> O {
        move || self(byte)
    }
}

#[test]
fn flash() {
    modes::<_, 3>(L1::new);
    modes::<_, 4>(L1::new);
    modes::<_, 3>(F0::new);
    modes::<_, 3>(Serial::new);
    modes::<_, 3>(Bytewise::new);
}

#[test]
fn mapped() {
    let kept = RefCell::new(Vec::new());
    let memory = || {
        let new = Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 400]);
        let new = Box::into_raw(new);
        kept.borrow_mut().push(new);
        // SAFETY: it is given out once, and lives until nothing uses it.
        unsafe { &mut *new }
    };
    modes::<_, 2>(|| Region::<InOrder16>::new(memory()));
    modes::<_, 2>(|| Region::<InOrder32>::new(memory()));
    modes::<_, 2>(|| Region::<Buffered32>::new(memory()));
    for old in kept.take() {
        // SAFETY: it came from a box, and nothing uses it any more.
        drop(unsafe { Box::from_raw(old) });
    }
}

#[test]
fn too_small_says_how_much() {
    let mut images = open::<_, 3>(RamNor::<3, 256, 4>::new());
    let mut state = State::mixed(1);
    let Err(Error::TooSmall { needed }) = images.checkpoint(&Full, &state.memory(HEAP_USED), 0)
    else {
        panic!("901 bytes do not fit in 256")
    };
    assert_eq!(needed, 3 * 1024);
    // Nothing was written, and the reported size is enough.
    assert!(images.into_medium().bytes().iter().all(|b| *b == 0xFF));
    let mut images = Images::<_, 3>::open(RamNor::<12, 256, 4>::new(), 0..needed, 7).unwrap();
    images
        .checkpoint(&Full, &state.memory(HEAP_USED), 0)
        .unwrap();
    let mut less = Images::<_, 3>::open(RamNor::<12, 256, 4>::new(), 0..needed - 256, 7).unwrap();
    let refused = less.checkpoint(&Full, &state.memory(HEAP_USED), 0);
    assert_eq!(refused, Err(Error::TooSmall { needed }));
    let tiny = Images::<_, 2>::open(RamFram::<70>::filled(0), 0..70, 7).err();
    assert_eq!(tiny, Some(Error::TooSmall { needed: 88 }));
    assert_eq!(Images::<RamFram<80>, 2>::bytes(u32::MAX, 3), u32::MAX);
    assert_eq!(Images::<RamFram<80>, 2>::bytes(1000, 3), 2 * 1068);
}

/// A mode that announces `said` first, and then returns `had`.
struct Fickle {
    asked: Cell<u32>,
    said: usize,
    had: usize,
}
impl Mode for Fickle {
    const FEW_EXTENTS: bool = true;
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let asked = self.asked.replace(self.asked.get() + 1);
        let n = if asked == 0 { self.said } else { self.had };
        let all = [memory.statics(), memory.heap(), memory.stack()];
        all.into_iter().cycle().take(n)
    }
}

/// It destroys only its own image.
#[test]
fn a_mode_that_changes_its_mind() {
    fn keeps<D: Medium, const N: usize>(mut d: D) {
        let mut state = State::mixed(1);
        let all = [(3, 12), (1, 3), (2, 3), (3, 2), (3, 0)];
        for (said, had) in all.into_iter().take(if cfg!(miri) { 1 } else { 5 }) {
            for fickle in if cfg!(miri) { 1..2 } else { 0..4 } {
                let mut images = open::<_, N>(&mut d);
                images
                    .checkpoint(&Full, &state.memory(HEAP_USED), 5)
                    .unwrap();
                for _ in 0..fickle {
                    let asked = Cell::new(0);
                    let mode = Fickle { asked, said, had };
                    let r = images.checkpoint(&mode, &State::mixed(2).memory(HEAP_USED), 6);
                    assert!(matches!(r, Err(Error::Damaged)), "{said} {had}: {r:?}");
                }
                let mut found = State::filled(0xA5);
                let r = open::<_, N>(&mut d)
                    .restore(&mut found.memory(HEAP_USED))
                    .unwrap();
                assert_eq!((r.context, r.damaged), (5, 0));
                assert!(found == state);
            }
        }
    }
    keeps::<_, 2>(RamFram::<2048>::filled(0));
    keeps::<_, 2>(RamMram::<4096>::filled(0));
    keeps::<_, 3>(L1::new());
    keeps::<_, 3>(F0::new());
}

/// Statics and heap, until the third call: then heap and statics, which have the same length.
struct Turned(Cell<u32>);
impl Mode for Turned {
    const COMPARE: bool = true;
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let asked = self.0.replace(self.0.get() + 1);
        let (a, b) = (memory.statics(), memory.heap());
        if asked < 2 { [a, b] } else { [b, a] }.into_iter()
    }
}

/// The comparing pass and the writing pass must see the same image.
#[test]
fn a_mode_that_changes_its_mind_in_between() {
    let mut d = RamNor::<24, 256, 4>::new();
    let mut state = State::mixed(1);
    for n in 0..4 {
        let mut images = open::<_, 3>(&mut d);
        images
            .checkpoint(&Full, &state.memory(HEAP_USED), n)
            .unwrap();
    }
    let mut images = open::<_, 3>(&mut d);
    let r = images.checkpoint(&Turned(Cell::new(0)), &state.memory(HEAP_USED), 9);
    assert!(matches!(r, Err(Error::Damaged)), "{r:?}");
    let mut found = State::filled(0xA5);
    let r = open::<_, 3>(&mut d)
        .restore(&mut found.memory(HEAP_USED))
        .unwrap();
    assert_eq!((r.context, r.damaged), (3, 0));
    assert!(found == state);
}

#[test]
fn bad_ranges() {
    let mut d = F0::new();
    let backwards = core::ops::Range {
        start: 2048,
        end: 0,
    };
    for range in [4..6144, 2048..8192, 0..u32::MAX, backwards] {
        let e = Images::<_, 3>::open(&mut d, range, 7).err();
        assert_eq!(e, Some(Error::BadRange));
    }
}

#[test]
fn another_program_or_memory() {
    let mut d = RamFram::<2400>::filled(0);
    open::<_, 2>(&mut d)
        .checkpoint(&Full, &State::mixed(1).memory(HEAP_USED), 0)
        .unwrap();
    let mut found = State::filled(0xA5);
    let mut other = Images::<_, 2>::open(&mut d, 0..2400, 8).unwrap();
    let refused = other.restore(&mut found.memory(HEAP_USED));
    assert_eq!(refused, Err(Error::OtherProgram { found: 7 }));
    let (mut a, mut b) = ([0; 400], [0; 501]);
    let moved = open::<_, 2>(&mut d).restore(&mut Memory::new(&mut a, &mut b, &mut []));
    assert_eq!(moved, Err(Error::OtherMemory));
    assert_eq!(found, State::filled(0xA5));
    assert_eq!((a, b), ([0; 400], [0; 501]));
    // A new program overwrites the slots one by one, and its images are valid.
    let mut other = Images::<_, 2>::open(&mut d, 0..2400, 8).unwrap();
    other
        .checkpoint(&Full, &State::mixed(2).memory(HEAP_USED), 5)
        .unwrap();
    let r = Images::<_, 2>::open(&mut d, 0..2400, 8)
        .unwrap()
        .restore(&mut found.memory(HEAP_USED));
    assert_eq!(r.unwrap().context, 5);
    // The old program's image is still there. The old program rejects the newer image and
    // continues.
    let r = open::<_, 2>(&mut d).restore(&mut found.memory(HEAP_USED));
    assert_eq!(found, State::mixed(1), "{r:?}");
}

#[test]
fn a_medium_that_fails_in_the_middle() {
    let mut which = [0; 4];
    for left in (0..40).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let mut images = open::<_, 3>(Failing {
            d: L1::new(),
            left: 1000,
        });
        images
            .checkpoint(&Split, &State::mixed(1).memory(HEAP_USED), 1)
            .unwrap();
        images
            .checkpoint(&Split, &State::mixed(2).memory(HEAP_USED), 2)
            .unwrap();
        let mut d = images.into_medium();
        d.left = left;
        let mut images = open::<_, 3>(d);
        let r = images.checkpoint(&Split, &State::mixed(3).memory(HEAP_USED), 3);
        let mut found = State::filled(0);
        let mut d = images.into_medium();
        d.left = 1000;
        let mut images = open::<_, 3>(d);
        let back = images.restore(&mut found.memory(HEAP_USED)).unwrap();
        match r {
            Ok(()) => assert_eq!(back.context, 3),
            Err(e) => {
                assert_eq!(e, Error::Medium("bus"));
                // All but the marker's confirmation may have been written.
                assert!([2, 3].contains(&back.context));
                which[back.context as usize] += 1;
                // It may be tried again.
                images
                    .checkpoint(&Split, &State::mixed(4).memory(HEAP_USED), 4)
                    .unwrap();
                assert_eq!(
                    images
                        .restore(&mut found.memory(HEAP_USED))
                        .unwrap()
                        .context,
                    4
                );
            }
        }
    }
    assert!(which[2] > 0, "{which:?}");
    assert!(cfg!(miri) || which[2] > 5 && which[3] == 1, "{which:?}");
}

/// Sets the sequence number of the image at the start of the medium.
pub fn resequenced(image: &mut [u8], sequence: u32, len: usize) {
    image[4..8].copy_from_slice(&sequence.to_le_bytes());
    image[8..12].copy_from_slice(&(!sequence).to_le_bytes());
    let crc = nvmem::crc::crc32(&image[..len - 8]);
    let mut sealed = image[..HEAD].to_vec();
    sealed.extend(crc.to_le_bytes());
    image[len - 8..len - 4].copy_from_slice(&crc.to_le_bytes());
    image[len - 4..len].copy_from_slice(&nvmem::crc::crc32(&sealed).to_le_bytes());
}

#[test]
fn sequences_wrap() {
    for start in [0x7FFF_FFFE, u32::MAX - 2, u32::MAX, 0] {
        let mut d = RamFram::<256>::filled(0);
        let mut b = [1; 40];
        open::<_, 2>(&mut d)
            .checkpoint(&Stack, &Memory::new(&mut b, &mut [], &mut []), 0)
            .unwrap();
        resequenced(d.bytes_mut(), start, HEAD + 8 + 40 + 8 + 8);
        for n in 1..6 {
            let mut images = open::<_, 2>(&mut d);
            b = [n as u8; 40];
            images
                .checkpoint(&Stack, &Memory::new(&mut b, &mut [], &mut []), n)
                .unwrap();
            let r = open::<_, 2>(&mut d)
                .restore(&mut Memory::new(&mut b, &mut [], &mut []))
                .unwrap();
            assert_eq!((r.context, r.sequence), (n, start.wrapping_add(n)));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "40,000 checkpoints")]
fn slots_wear_evenly() {
    fn wear<const N: usize, M: Mode>(mode: &M) -> (u32, u32) {
        let mut d = RamNor::<24, 256, 4>::new();
        {
            let mut images = open::<_, N>(&mut d);
            for n in 0..10_000 {
                if n % 100 == 0 {
                    images.restore(&mut State::filled(0).memory(HEAP_USED)).ok();
                }
                images
                    .checkpoint(mode, &State::mixed(n / 7).memory(HEAP_USED), n)
                    .unwrap();
            }
        }
        let worst = *d.wear().iter().max().unwrap();
        (worst, d.wear().iter().sum())
    }
    // The first units of each slot are erased at every N-th checkpoint.
    assert_eq!(wear::<3, _>(&Split).0, 3334);
    assert_eq!(wear::<4, _>(&Split).0, 2500);
    // Unchanged units are not erased at each checkpoint.
    let (all, some) = (wear::<3, _>(&Full).1, wear::<3, _>(&CopyIfChange(Full)).1);
    assert!(some < all * 8 / 10, "{some} of {all}");
}

/// Two slots with images of a small memory: the older and the newer.
fn two_images() -> RamFram<256> {
    let mut d = RamFram::<256>::filled(0);
    let mut images = open::<_, 2>(&mut d);
    for n in [1, 2] {
        let (mut a, mut b) = ([n; 9], [n + 10; 8]);
        let memory = Memory::new(&mut a, &mut [], &mut b).stack_from(3);
        images.checkpoint(&Split, &memory, n.into()).unwrap();
    }
    d
}

#[test]
fn every_flipped_bit_is_found_or_harmless() {
    let whole = two_images();
    let (mut harmless, mut older, mut other) = (0, 0, 0);
    for bit in (0..256 * 8).step_by(if cfg!(miri) { 61 } else { 1 }) {
        let mut d = whole.clone();
        d.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        let (mut a, mut b) = ([0; 9], [0; 8]);
        let r = open::<_, 2>(&mut d).restore(&mut Memory::new(&mut a, &mut [], &mut b));
        match r {
            Ok(r) if r.context == 2 => {
                assert_eq!((a, b), ([2; 9], [0, 0, 0, 12, 12, 12, 12, 12]), "bit {bit}");
                harmless += 1;
            }
            Ok(r) => {
                assert_eq!(r.context, 1, "bit {bit}");
                assert_eq!((a, b), ([1; 9], [0, 0, 0, 11, 11, 11, 11, 11]), "bit {bit}");
                assert!(
                    r.damaged + r.unfinished > 0,
                    "bit {bit} is not reported: {r:?}"
                );
                older += 1;
            }
            Err(_) => other += 1,
        }
    }
    if cfg!(miri) {
        assert!(older > 0 && harmless > 0 && other == 0);
        return;
    }
    // A flipped bit anywhere in the newer image, except in its padding, makes the older one valid.
    assert_eq!(
        (older, other),
        ((HEAD + 8 + 9 + 8 + 8 + 5 + 8) * 8, 0),
        "{harmless}"
    );
}

#[test]
fn damage_is_told_from_an_interruption() {
    let mut d = two_images();
    // In the body of the newer image.
    d.bytes_mut()[128 + 45] ^= 4;
    let (mut a, mut b) = ([0; 9], [0; 8]);
    let r = open::<_, 2>(&mut d)
        .restore(&mut Memory::new(&mut a, &mut [], &mut b))
        .unwrap();
    assert_eq!((r.context, r.damaged, r.unfinished), (1, 1, 0));
    d.bytes_mut()[45] ^= 4;
    let mut images = open::<_, 2>(&mut d);
    let r = images.restore(&mut Memory::new(&mut a, &mut [], &mut b));
    assert_eq!(r, Err(Error::Damaged));
    assert_eq!(a, [1; 9], "memory is as it was");
    images
        .checkpoint(&Split, &Memory::new(&mut a, &mut [], &mut b), 3)
        .unwrap();
    let r = images
        .restore(&mut Memory::new(&mut a, &mut [], &mut b))
        .unwrap();
    assert_eq!((r.context, r.sequence), (3, 3));
}

/// Flash with one word that reads right the first time only.
struct Flaky {
    d: L1,
    at: u32,
    reads: u32,
}

impl Medium for Flaky {
    type Error = Misuse;
    const CONTRACT: Contract = L1::CONTRACT;
    fn capacity(&self) -> u32 {
        self.d.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.d.read(at, buf)?;
        if let Some(b) = self
            .at
            .checked_sub(at)
            .and_then(|i| buf.get_mut(i as usize))
        {
            self.reads += 1;
            *b ^= u8::from(self.reads > 1);
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.d.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.d.erase(from, to)
    }
}

#[test]
fn what_reads_differently_is_not_copied() {
    let mut images = open::<_, 3>(L1::new());
    images
        .checkpoint(&Full, &State::mixed(1).memory(HEAP_USED), 1)
        .unwrap();
    images
        .checkpoint(&Full, &State::mixed(2).memory(HEAP_USED), 2)
        .unwrap();
    let mut d = images.into_medium();
    // The newer image has lost its confirmation, so it is copied before it is used.
    let slot = 24 * 256 / 3;
    let content = (HEAD + 24 + 901 + 8).next_multiple_of(128);
    d.bytes_mut()[slot + content + 128..][..128].fill(0);
    for (at, expected) in [(0, 2), (slot as u32 + 270, 1)] {
        let mut found = State::filled(0);
        let mut images = open::<_, 3>(Flaky {
            d: d.clone(),
            at,
            reads: 0,
        });
        let r = images.restore(&mut found.memory(HEAP_USED));
        let Ok(r) = r else { panic!("{r:?}") };
        assert_eq!((r.context, &found), (expected, &State::mixed(expected)));
    }
}

proptest! {
    /// Any bytes with matching checksums.
    #[test]
    fn hostile_images(
        sequence in any::<u32>(),
        body_len in prop_oneof![0..80u32, any::<u32>()],
        body in prop::collection::vec(prop_oneof![0..20u8, any::<u8>()], 80),
        noise in prop::collection::vec((0..256usize, any::<u8>()), 0..4),
    ) {
        let mut d = two_images();
        let (mut a, mut b) = ([0xA5; 9], [0xA5; 8]);
        {
            let bytes = d.bytes_mut();
            let to = &mut bytes[..128];
            to[12..16].copy_from_slice(&body_len.to_le_bytes());
            to[HEAD..HEAD + 80].copy_from_slice(&body);
            let len = body_len.min(80) as usize;
            resequenced(to, sequence, HEAD + 8 + len);
            for (at, byte) in noise {
                bytes[at] = byte;
            }
        }
        let mut images = open::<_, 2>(&mut d);
        if images.restore(&mut Memory::new(&mut a, &mut [], &mut b)).is_err() {
            prop_assert_eq!((a, b), ([0xA5; 9], [0xA5; 8]));
        }
        images.checkpoint(&Split, &Memory::new(&mut a, &mut [], &mut b), 77).unwrap();
        let r = images.restore(&mut Memory::new(&mut a, &mut [], &mut b)).unwrap();
        prop_assert_eq!(r.context, 77);
    }
}
