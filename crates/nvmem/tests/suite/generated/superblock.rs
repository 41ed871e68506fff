//! A region whose superblock is formatted and changed, by one who boots: from a blank region on, or
//! from one with other content, or with sequence numbers that wrap. Bits flip meanwhile.
//!
//! The judge: a probe finds what the last call has made, or after a cut what was there before, and
//! with a superblock the content that was stored before it. What it has found stays. A flipped bit
//! never gives an older state, a blank region, or another superblock.

use super::region::{flipped, image};
use crate::crash_superblock::{get, put};
use crate::runs::{programs, seed};
use nvmem::superblock::{self, Copies, Difference, State, Superblock};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use powerfail::{Mapped, World, explore_with, random};
use proptest::prelude::*;
use std::fmt;
use std::mem::MaybeUninit;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Begins a format, over anything.
    Begin,
    /// Ends a format that it begins where none is, or changes the superblock; behind new content.
    Finish,
    /// The same in one boot with the marker that it has stored.
    FinishMarked,
    /// The superblock of a format, or the one that is there, becomes another one.
    Replace,
    /// This bit of the region flips, and flips back.
    Flip(u16),
}

#[derive(Clone, PartialEq)]
pub struct Script {
    pub ops: Vec<Op>,
}

/// As a test for found.rs.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "superblock::Script {{ ops: vec!{:?} }}", self.ops)
    }
}

fn scripts(most: usize) -> impl Strategy<Value = Script> {
    // As many in each copy as behind them.
    let bit = prop_oneof![0..512_u16, 512..1024_u16, 1024..8 * BYTES as u16];
    let op = prop_oneof![
        2 => Just(Op::Begin),
        2 => Just(Op::Finish),
        1 => Just(Op::FinishMarked),
        3 => Just(Op::Replace),
        6 => bit.prop_map(Op::Flip),
    ];
    prop::collection::vec(op, 1..=most).prop_map(|ops| Script { ops })
}

/// What a region holds when the first boot begins. Below these numbers: two superblocks, of which
/// the newer one has this sequence number.
mod start {
    pub const ZEROS: u32 = 0x1_0000;
    pub const ONES: u32 = 0x1_0001;
    /// This byte is another one.
    pub const FOREIGN: u32 = 0x2_0000;
}

const BYTES: usize = 160;
const COPY_BITS: usize = 8 * Superblock::COPY_BYTES;
/// Content: a number and its complement in one of two places. The current superblock says in which.
const CONTENT: usize = Superblock::BYTES;

/// The superblock number `n`. Its parameters name the place of its content; 2: it has none.
fn numbered(n: u32, place: u32) -> Superblock {
    let mixed = n.wrapping_mul(0x9E37_79B9);
    Superblock {
        kind: *b"TEST",
        version: n as u16,
        fingerprint: u64::from(mixed) << 32 | u64::from(!n),
        params: [n, place, mixed, 4, 0, 6, !mixed, n ^ 0x5A5A],
    }
}

fn media<M: Model, const START: u32>() -> Mapped<M> {
    let mut bytes = vec![0; BYTES];
    match START {
        start::ZEROS => {}
        start::ONES => bytes.fill(0xFF),
        at @ start::FOREIGN.. => bytes[(at - start::FOREIGN) as usize] = 0x52,
        newer => {
            let at = |copy| copy * Superblock::COPY_BYTES;
            let sequence = newer as u16;
            bytes[at(0)..at(1)].copy_from_slice(&numbered(0, 2).encode(sequence));
            let older = numbered(u32::MAX, 2).encode(sequence.wrapping_sub(1));
            bytes[at(1)..at(2)].copy_from_slice(&older);
        }
    }
    Mapped::with_image(bytes)
}

/// What the world knows.
#[derive(Clone, Hash, Debug, Default)]
struct Seen {
    /// Operations that were begun.
    at: u32,
    /// What the next probe may find. Nothing: the first boot has not looked.
    possible: Vec<Known>,
    /// A unit of which a bit is flipped: its offset, and its value before.
    flipped: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq)]
enum Known {
    Blank,
    Formatting,
    /// With this number, and the place of its content.
    Ready(u32, u32),
    Foreign,
    Damaged,
}

fn known(state: State) -> Known {
    match state {
        State::Blank => Known::Blank,
        State::Formatting => Known::Formatting,
        State::Ready(found) => {
            let [n, place, ..] = found.params;
            assert_eq!(found, numbered(n, place), "a mixture");
            Known::Ready(n, place)
        }
        State::Foreign => Known::Foreign,
        State::Damaged => Known::Damaged,
    }
}

struct Run<'w, 'r, 'm, M> {
    region: Region<'m, M>,
    world: &'w World<'r, Seen>,
}

impl<M: Model> Run<'_, '_, '_, M> {
    fn probe(&self, expected: Known) -> Known {
        // A program expects what it knows; of a region that it has never seen, its first one.
        let mine = match expected {
            Known::Ready(n, place) => numbered(n, place),
            _ => numbered(0, 2),
        };
        known(superblock::probe(&self.region, &mine))
    }

    /// What the region holds. From here on it stays.
    fn look(&self) -> Known {
        let possible = self.world.get().possible;
        let found = self.probe(*possible.last().unwrap());
        assert!(
            possible.contains(&found),
            "{found:?} is found, and possible are {possible:?}"
        );
        if let Known::Ready(n, place @ 0..2) = found {
            let at = CONTENT + 8 * place as usize;
            let content = [get(&self.region, at), get(&self.region, at + 4)];
            assert_eq!(content, [n, !n], "the content of superblock {n}");
        }
        self.copies_in_ram(found);
        self.others(self.world.with(|w| w.at) % 32, found);
        self.world.update(|w| w.possible = vec![found]);
        found
    }

    /// A manager that has both copies in RAM finds the same.
    fn copies_in_ram(&self, found: Known) {
        let mut place = MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut place);
        let stored = image(&self.region);
        copies
            .as_bytes_mut()
            .copy_from_slice(&stored[..Superblock::BYTES]);
        let newest = copies.newest();
        match (found, newest) {
            (Known::Ready(n, place), Some(newest)) => {
                assert!(!newest.is_formatting());
                assert_eq!(copies.superblock(newest.copy()), numbered(n, place));
            }
            // A torn marker is none.
            (Known::Formatting, newest) => assert!(newest.is_none_or(|n| n.is_formatting())),
            (_, newest) => assert_eq!(newest, None, "{found:?}"),
        }
    }

    /// Each of these may be found if the call is cut, and the last one when it has returned.
    fn calls(&mut self, steps: &[Known], call: impl FnOnce(&mut Region<'_, M>)) {
        self.world.update(|w| w.possible.extend(steps));
        call(&mut self.region);
        self.world
            .update(|w| w.possible = vec![*steps.last().unwrap()]);
    }

    fn begin(&mut self, found: Known) {
        let steps: &[Known] = match found {
            // It may also become the other of these two, or blank if all that was in it is zeroed.
            Known::Foreign => &[Known::Damaged, Known::Blank, Known::Formatting],
            Known::Damaged => &[Known::Foreign, Known::Blank, Known::Formatting],
            _ => &[Known::Formatting],
        };
        self.calls(steps, |region| superblock::begin(region, &numbered(0, 2)));
    }

    /// Puts the content of number `n` beside the current one.
    fn content(&mut self, n: u32, found: Known) -> u32 {
        let place = match found {
            Known::Ready(_, 0) => 1,
            _ => 0,
        };
        put(&self.region, CONTENT + 8 * place, n);
        put(&self.region, CONTENT + 8 * place + 4, !n);
        place as u32
    }

    fn finish(&mut self, n: u32, found: Known) {
        if found == Known::Blank {
            // A format of its own, without content.
            let steps = [Known::Formatting, Known::Ready(n, 2)];
            self.calls(&steps, |region| superblock::finish(region, &numbered(n, 2)));
            return;
        }
        let place = self.content(n, found);
        let sb = numbered(n, place);
        self.calls(&[Known::Ready(n, place)], |region| {
            superblock::finish(region, &sb)
        });
    }

    fn finish_marked(&mut self, n: u32) {
        let mut marker = None;
        self.calls(&[Known::Formatting], |region| {
            marker = Some(superblock::begin_marked(region, &numbered(0, 2)));
        });
        let place = self.content(n, Known::Formatting);
        let sb = numbered(n, place);
        self.calls(&[Known::Ready(n, place)], |region| {
            superblock::finish_marked(region, marker.unwrap(), &sb);
        });
    }

    fn replace(&mut self, n: u32, found: Known) {
        let place = self.content(n, found);
        let sb = numbered(n, place);
        self.calls(&[Known::Ready(n, place)], |region| {
            superblock::replace(region, &sb)
        });
    }

    /// Programs that expect another fingerprint or parameter, of which this bit differs, find the
    /// same, and that it is not theirs.
    fn others(&self, bit: u32, found: Known) {
        let mine = match found {
            Known::Ready(n, place) => numbered(n, place),
            _ => numbered(0, 2),
        };
        for word in 0..10 {
            let mut other = mine;
            match word {
                0 | 1 => other.fingerprint ^= 1 << (32 * word + bit),
                word => other.params[word as usize - 2] ^= 1 << bit,
            }
            assert_eq!(known(superblock::probe(&self.region, &other)), found);
            if let State::Ready(view) = superblock::probe_view(&self.region, &other) {
                assert!(!view.is_expected(), "word {word} is another one");
                let differs = match word {
                    0 | 1 => Difference::Layout,
                    word => Difference::Param(word as usize - 2),
                };
                assert_eq!(view.agrees(&mut other, 0), Err(differs));
            }
        }
    }

    /// Looks at a region of which a bit is flipped.
    fn flip(&mut self, bit: usize, found: Known) {
        let (at, before, after) = flipped(&self.region, bit);
        self.world.update(|w| w.flipped = Some((at as u32, before)));
        // SAFETY: inside, aligned, and nothing is lent.
        unsafe { self.region.store(at, after) };
        let state = self.probe(found);
        match (found, state) {
            (Known::Blank, state) => assert_eq!(state, Known::Foreign),
            (_, Known::Foreign | Known::Damaged) => {}
            // The marker's sequence number may become that of a format that has ended.
            (Known::Formatting, _) if bit % COPY_BITS == 33 => {}
            (found, state) => assert_eq!(state, found, "bit {bit} is flipped"),
        }
        self.flips_back();
    }

    fn flips_back(&mut self) {
        let Some((at, before)) = self.world.with(|w| w.flipped) else {
            return;
        };
        // SAFETY: as in `flip`.
        unsafe { self.region.store(at as usize, before) };
        nvmem::mapped::fence::<M>();
        self.world.update(|w| w.flipped = None);
    }

    fn run(&mut self, script: &Script) {
        self.flips_back();
        // A format that was cut is begun again, because its marker may be torn.
        if self.look() == Known::Formatting {
            self.begin(Known::Formatting);
        }
        loop {
            let found = self.look();
            let at = self.world.with(|w| w.at);
            let Some(op) = script.ops.get(at as usize) else {
                return;
            };
            self.world.update(|w| w.at += 1);
            // What is no format of this program is begun again, and nothing else.
            let unknown = matches!(found, Known::Foreign | Known::Damaged);
            let n = at + 1;
            match *op {
                Op::Begin => self.begin(found),
                Op::Finish if !unknown => self.finish(n, found),
                Op::FinishMarked if !unknown => self.finish_marked(n),
                Op::Replace if !unknown && found != Known::Blank => self.replace(n, found),
                Op::Flip(bit) => self.flip(bit.into(), found),
                Op::Finish | Op::FinishMarked | Op::Replace => {}
            }
        }
    }
}

fn boot<M: Model, const START: u32>(region: Region<'_, M>, w: &World<'_, Seen>, script: &Script) {
    if w.with(|w| w.possible.is_empty()) {
        let first = match START {
            start::ZEROS | start::ONES => Known::Blank,
            start::FOREIGN.. => Known::Foreign,
            _ => Known::Ready(0, 2),
        };
        w.update(|w| w.possible = vec![first]);
    }
    Run { region, world: w }.run(script);
}

/// A script, cut everywhere.
pub fn cut_everywhere<M: Model, const START: u32>(script: Script) {
    let e = explore_with(script, media::<M, START>(), |nv, w, script| {
        boot::<M, START>(nv, w, script)
    });
    e.run();
}

fn campaign<M: Model, const START: u32>(depth: u32, most: usize, cases: u32) {
    let s = random(
        scripts(most),
        media::<M, START>,
        |nv, w: &World<'_, Seen>, script| boot::<M, START>(nv, w, script),
    )
    .cases(programs(cases))
    .seed(seed())
    .depth(depth)
    .run();
    println!("{s}");
}

fn blank<M: Model>(depth: u32, most: usize) {
    campaign::<M, { start::ZEROS }>(depth, most, 3);
    campaign::<M, { start::ONES }>(depth, most, 3);
}

#[test]
fn blank_regions_in_order() {
    blank::<InOrder16>(2, 5);
    blank::<InOrder32>(2, 5);
}

/// Once: a cut of a copy leaves up to 2^16 states.
#[test]
fn blank_regions_behind_a_buffer() {
    blank::<Buffered32>(1, 4);
}

/// Sequence numbers wrap, as signed ones and as unsigned ones.
#[test]
fn used_regions() {
    campaign::<InOrder16, 0xFFFE>(1, 12, 3);
    campaign::<InOrder32, 0x7FFE>(1, 12, 3);
    campaign::<Buffered32, 0xFFFE>(1, 12, 3);
}

#[test]
fn foreign_regions() {
    campaign::<InOrder16, { start::FOREIGN + 7 }>(1, 8, 2);
    campaign::<Buffered32, { start::FOREIGN }>(1, 8, 2);
    campaign::<InOrder32, { start::FOREIGN + 140 }>(1, 8, 2);
    campaign::<InOrder32, { start::FOREIGN + 159 }>(1, 8, 2);
}
