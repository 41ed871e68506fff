//! Modes that change their mind. Each call of `extents` should return the same ones. If one does
//! not, its checkpoint is refused, or is one of those that it announced; and the one before it
//! stays.

use super::each;
use checkpoint::{Error, Extent, Full, Images, Memory, Mode};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamMram, RamNor};
use proptest::prelude::*;
use std::cell::Cell;

/// Bytes of each of the three segments. They are equal, so that images of the same size differ.
const SEGMENT: usize = 160;

/// The segments that one call returns, in this order.
type Answer = Vec<usize>;

/// What the first calls return; the last answer is that of all others.
struct Fickle<'a, const COMPARE: bool> {
    answers: &'a [Answer],
    calls: Cell<usize>,
}

impl<const COMPARE: bool> Mode for Fickle<'_, COMPARE> {
    const COMPARE: bool = COMPARE;
    const FEW_EXTENTS: bool = true;
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let call = self.calls.replace(self.calls.get() + 1);
        let all = [memory.statics(), memory.heap(), memory.stack()];
        let answer = &self.answers[call.min(self.answers.len() - 1)];
        answer.iter().map(move |segment| all[*segment])
    }
}

/// A checkpoint: what memory is filled with, whether the slot is compared, and the mode's answers.
type Step = (u8, bool, Vec<Answer>);

fn step() -> impl Strategy<Value = Step> {
    let pair = prop_oneof![Just(vec![0, 1]), Just(vec![1, 0]), Just(vec![0, 2])];
    let any_three = prop::collection::vec(0..3usize, 3);
    let any_number = prop::collection::vec(0..3usize, 0..6);
    let answer = prop_oneof![4 => pair, 2 => any_three, 1 => any_number];
    (0..3u8, any::<bool>(), prop::collection::vec(answer, 1..4))
}

/// Memory, and what a restore makes of other memory.
type Ram = [[u8; SEGMENT]; 3];

fn memory(ram: &mut Ram) -> Memory<'_> {
    let [statics, heap, stack] = ram;
    Memory::new(statics, heap, stack)
}

const OLD: Ram = [[0xA5; SEGMENT]; 3];

/// What a restore of this answer leaves.
fn restored(ram: &Ram, answer: &Answer) -> Ram {
    std::array::from_fn(|i| if answer.contains(&i) { ram[i] } else { OLD[i] })
}

fn changes_its_mind<D: Medium, const N: usize>(mut nv: D, steps: &[Step]) {
    // A slot has no byte more than an image of all memory needs.
    let all = 0..Images::<D, N>::bytes(3 * SEGMENT as u32, 3);
    let mut kept = vec![OLD];
    let mut context = 0;
    let save = |nv: &mut D, n: usize, ram: &mut Ram, compare: bool, answers: &[Answer]| {
        let mut images = Images::<_, N>::open(nv, all.clone(), 1).expect("room");
        let (memory, n, calls) = (memory(ram), n as u32, Cell::new(0));
        match (compare, answers) {
            (_, []) => images.checkpoint(&Full, &memory, n),
            (true, answers) => images.checkpoint(&Fickle::<true> { answers, calls }, &memory, n),
            (false, answers) => images.checkpoint(&Fickle::<false> { answers, calls }, &memory, n),
        }
    };
    for (n, (fill, compare, answers)) in steps.iter().enumerate() {
        let mut ram: Ram = std::array::from_fn(|i| [fill * 3 + i as u8; SEGMENT]);
        // Honest ones in all slots first, so that the mode's image has something to destroy.
        for honest in 0..if n == 0 { N } else { 1 } {
            ram[0][0] = honest as u8;
            save(&mut nv, 2 * n, &mut ram, false, &[]).expect("all fits");
            (kept, context) = (vec![ram], 2 * n as u32);
        }
        match save(&mut nv, 2 * n + 1, &mut ram, *compare, answers) {
            Ok(()) => {
                kept = answers.iter().map(|a| restored(&ram, a)).collect();
                context = 2 * n as u32 + 1;
            }
            Err(Error::Damaged) => {
                let differ = answers.windows(2).any(|a| a[0] != a[1]);
                assert!(differ, "it has not changed its mind");
            }
            Err(Error::TooSmall { .. }) => assert!(answers[0].len() > 3, "it fits"),
            Err(e) => panic!("{e:?}"),
        }
        let mut found = OLD;
        let mut images = Images::<_, N>::open(&mut nv, all.clone(), 1).expect("room");
        let r = images.restore(&mut memory(&mut found));
        let r = r.unwrap_or_else(|e| panic!("step {n}: {e}"));
        assert_eq!((r.context, r.damaged), (context, 0), "step {n}");
        assert!(kept.contains(&found), "step {n}: it restores a mixture");
    }
}

#[test]
fn modes() {
    each(prop::collection::vec(step(), 1..8), 300, |steps| {
        changes_its_mind::<_, 2>(RamFram::<1200>::filled(0), &steps);
        changes_its_mind::<_, 2>(RamMram::<1200>::filled(0), &steps);
        changes_its_mind::<_, 3>(RamNor::<12, 256, 4>::new(), &steps);
        changes_its_mind::<_, 3>(RamNor::<30, 64, 16, 0>::new(), &steps);
    });
}
