//! Tagged words and cells that several owners change, in transactions that are open at the same
//! time. Sequence numbers have 3 to 6 bits, so they come round many times.
//!
//! The judge: what has committed is there, and nothing of a transaction that has not. After a cut
//! in a commit, all of it or nothing. Words are mapped, so no operation of the medium fails.

use super::cases;
use super::region::image;
use crate::runs::{programs, seed};
use nvmem::tagged::{Cells, Stamp, TagError, Widths, Words};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region, Unit, mapped};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;
use std::fmt;

/// The most words, cells and owners of a script.
const WORDS: usize = 12;
const CELLS: usize = 4;
const OWNERS: usize = 3;

/// The value of a cell; not all bits are one, and it has padding.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
struct Pair {
    n: u16,
    odd: bool,
    twice: u32,
}

impl Pair {
    fn of(n: u32) -> Pair {
        Pair {
            n: n as u16,
            odd: n % 2 == 1,
            twice: 2 * n,
        }
    }

    #[track_caller]
    fn number(self) -> u32 {
        assert_eq!(self, Pair::of(self.n.into()), "a torn value");
        self.n.into()
    }
}

/// Objects count through the words and then through the cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// In the owner's transaction; as a caller that keeps the committed states, or not.
    Set {
        owner: u8,
        object: u8,
        value: u8,
        keeps: bool,
    },
    /// With a sweep.
    Commit(u8),
    /// Without one, if so many numbers may pass without.
    Number(u8),
    Abort(u8),
    /// As an interrupt, outside of all transactions.
    Publish {
        object: u8,
        value: u8,
        keeps: bool,
    },
    /// So many commits of transactions that set nothing; with a sweep each, or as few as possible.
    Quiet(u8, u8, bool),
    /// Without a power cut.
    Boot,
}

#[derive(Clone, PartialEq)]
pub struct Script {
    /// Bits of a sequence number.
    pub sequence: u8,
    pub words: u8,
    pub cells: u8,
    pub ops: Vec<Op>,
}

/// As a test for found.rs.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Script {
            sequence,
            words,
            cells,
            ops,
        } = self;
        writeln!(f, "words::Script {{\n    sequence: {sequence},")?;
        writeln!(f, "    words: {words},\n    cells: {cells},")?;
        write!(f, "    ops: vec!{ops:?},\n}}")
    }
}

impl Script {
    fn widths(&self, state: u8) -> Widths {
        Widths {
            sequence: self.sequence,
            owner: 2,
            state,
        }
    }

    fn objects(&self) -> usize {
        usize::from(self.words + self.cells)
    }
}

fn scripts(most: usize) -> impl Strategy<Value = Script> {
    let owner = || 0..OWNERS as u8;
    let object = || any::<u8>();
    let op = prop_oneof![
        8 => (owner(), object(), any::<u8>(), any::<bool>())
            .prop_map(|(owner, object, value, keeps)| Op::Set { owner, object, value, keeps }),
        6 => owner().prop_map(Op::Commit),
        2 => owner().prop_map(Op::Number),
        1 => owner().prop_map(Op::Abort),
        1 => (object(), any::<u8>(), any::<bool>())
            .prop_map(|(object, value, keeps)| Op::Publish { object, value, keeps }),
        2 => (owner(), 1..12_u8, any::<bool>())
            .prop_map(|(owner, n, sweeps)| Op::Quiet(owner, n, sweeps)),
        1 => Just(Op::Boot),
    ];
    let sequence = prop_oneof![2 => Just(3_u8), 2 => Just(4), 1 => 5..7_u8];
    // Few objects are changed often.
    let counts = prop_oneof![(1..=WORDS as u8, 0..=CELLS as u8), (1..3_u8, 1..3_u8)];
    (sequence, counts, prop::collection::vec(op, 2..=most)).prop_map(
        |(sequence, (words, cells), ops)| Script {
            sequence,
            words,
            cells,
            ops,
        },
    )
}

/// What the world knows.
#[derive(Clone, Hash, Debug, Default)]
struct Seen {
    /// Operations that were begun.
    at: u32,
    formatted: bool,
    /// What is committed, by object.
    committed: Vec<u32>,
    /// What a commit that was begun makes of it.
    begun: Option<Vec<u32>>,
}

/// The owners' commit words, words and cells in one region.
struct Opened<'m, M: Model> {
    script: &'m Script,
    commits: Region<'m, M>,
    words: Words<'m, M>,
    cells: Cells<'m, M, Pair>,
    /// What each owner has set in its open transaction.
    staged: [Vec<(usize, u32)>; OWNERS],
    /// The number of each owner's last sweep, and how many it has committed since.
    swept: [(u32, u32); OWNERS],
}

const COMMITS: usize = 16;

const fn bytes<M: Model>() -> usize {
    COMMITS + Words::<M>::bytes(WORDS) + Cells::<M, Pair>::bytes(CELLS)
}

fn split<M: Model>(nv: Region<'_, M>) -> [Region<'_, M>; 3] {
    let (commits, rest) = nv.split_at(COMMITS).map_err(|e| e.0).unwrap();
    let (words, cells) = rest
        .split_at(Words::<M>::bytes(WORDS))
        .map_err(|e| e.0)
        .unwrap();
    [commits, words, cells]
}

/// The last committed number of each owner.
fn last<M: Model>(commits: &Region<'_, M>) -> impl Fn(u32) -> Option<u32> + use<M> {
    // SAFETY: inside, aligned, and nothing is lent.
    let of: [u32; OWNERS] = std::array::from_fn(|o| unsafe { commits.load(o * M::Unit::BYTES) });
    move |owner| of.get(owner as usize).copied()
}

fn format<'m, M: Model>(nv: [Region<'m, M>; 3], script: &Script) -> [Region<'m, M>; 3] {
    let [commits, words, cells] = nv;
    let words = Words::format(words, script.words.into(), script.widths(3)).unwrap();
    let value = Pair::of(0);
    let cells = Cells::format(cells, script.cells.into(), script.widths(1), value).unwrap();
    [commits, words.close(), cells.close()]
}

impl<'m, M: Model> Opened<'m, M> {
    fn open([commits, words, cells]: [Region<'m, M>; 3], script: &'m Script) -> Self {
        let last = last(&commits);
        let widths = |state| script.widths(state);
        Opened {
            words: Words::recover(words, script.words.into(), widths(3), &last).unwrap(),
            cells: Cells::recover(cells, script.cells.into(), widths(1), &last).unwrap(),
            swept: std::array::from_fn(|o| (last(o as u32).unwrap(), 0)),
            staged: Default::default(),
            commits,
            script,
        }
    }

    /// Which cell an object is, if it is no word.
    fn cell(&self, object: usize) -> Option<usize> {
        object.checked_sub(self.script.words.into())
    }

    fn content(&self) -> Vec<u32> {
        let last = last(&self.commits);
        let get = |object| match self.cell(object) {
            None => self.words.get(object, &last).unwrap(),
            Some(cell) => self.cells.get(cell, &last).unwrap().number(),
        };
        (0..self.script.objects()).map(get).collect()
    }

    fn stamp(&self, owner: usize) -> Stamp {
        let owner = owner as u32;
        let last = last(&self.commits)(owner).unwrap();
        let sequence = self.script.widths(1).next(last);
        Stamp { owner, sequence }
    }

    /// Whether another owner's open transaction has set it.
    fn is_busy(&self, owner: Option<usize>, object: usize) -> bool {
        let staged = self.staged.iter().enumerate();
        let mut others = staged.filter(|(o, _)| Some(*o) != owner);
        others.any(|(_, changes)| changes.iter().any(|(o, _)| *o == object))
    }

    fn set(&mut self, owner: usize, object: usize, value: u32, keeps: bool) {
        let (stamp, last) = (self.stamp(owner), last(&self.commits));
        let again = self.staged[owner].iter().any(|(o, _)| *o == object);
        let busy = self.is_busy(Some(owner), object);
        // It keeps the committed states. It sets a word once in a transaction; a cell knows its
        // own.
        let puts = keeps && !busy && (!again || self.cell(object).is_some());
        let done = match self.cell(object) {
            None if puts => {
                let before = self.words.get(object, &last).unwrap();
                self.words.put(object, stamp, before, value)
            }
            None => self.words.set(object, stamp, value, last),
            Some(cell) if puts => self.cells.put(cell, stamp, Pair::of(value)),
            Some(cell) => self.cells.set(cell, stamp, Pair::of(value), last),
        };
        if busy {
            assert_eq!(done, Err(TagError::Busy), "another transaction has set it");
            return;
        }
        done.unwrap();
        let staged = match self.cell(object) {
            None => self.words.staged(object, stamp).unwrap(),
            Some(cell) => self.cells.staged(cell, stamp).unwrap().map(Pair::number),
        };
        assert_eq!(staged, Some(value), "the transaction sees what it has set");
        self.staged[owner].push((object, value));
    }

    /// The content after the commit of an owner's transaction.
    fn after(&self, owner: usize, committed: &[u32]) -> Vec<u32> {
        let mut after = committed.to_vec();
        for (object, value) in &self.staged[owner] {
            after[*object] = *value;
        }
        after
    }

    fn commit(&mut self, owner: usize, sweeps: bool) {
        let stamp = self.stamp(owner);
        let (since, unswept) = &mut self.swept[owner];
        if sweeps || *unswept >= self.script.widths(1).max_unswept() {
            self.words.sweep(stamp, *since).unwrap();
            self.cells.sweep(stamp, *since).unwrap();
            (*since, *unswept) = (stamp.sequence, 0);
        } else {
            *unswept += 1;
        }
        mapped::fence::<M>();
        // SAFETY: inside, aligned, and nothing is lent.
        unsafe { self.commits.store(owner * M::Unit::BYTES, stamp.sequence) }
        mapped::fence::<M>();
        self.staged[owner].clear();
    }

    fn abort(&mut self, owner: usize) {
        let stamp = self.stamp(owner);
        self.words.revert(stamp).unwrap();
        self.cells.revert(stamp).unwrap();
        self.staged[owner].clear();
    }

    fn publish(&mut self, object: usize, value: u32, keeps: bool, busy: bool) {
        let last = last(&self.commits);
        let done = match (self.cell(object), keeps && !busy) {
            (None, false) => self.words.publish(object, value, last),
            (None, true) => self.words.put_settled(object, value),
            (Some(cell), false) => self.cells.publish(cell, Pair::of(value), last),
            (Some(cell), true) => self.cells.put_settled(cell, Pair::of(value)),
        };
        let expected = if busy { Err(TagError::Busy) } else { Ok(()) };
        assert_eq!(done, expected, "an open transaction has set it, or none");
    }

    fn close(self) -> [Region<'m, M>; 3] {
        [self.commits, self.words.close(), self.cells.close()]
    }

    /// Goes on to the next boot. `None` at the end of the script.
    fn run(mut self, world: &World<'_, Seen>) -> Option<[Region<'m, M>; 3]> {
        loop {
            let mut seen = world.get();
            assert_eq!(self.content(), seen.committed, "what has committed");
            let op = *self.script.ops.get(seen.at as usize)?;
            seen.at += 1;
            seen.begun = match op {
                Op::Commit(owner) | Op::Number(owner) | Op::Quiet(owner, ..) => {
                    Some(self.after(owner.into(), &seen.committed))
                }
                Op::Publish { object, value, .. } => {
                    let (object, value) = self.object(object, value);
                    let mut after = seen.committed.clone();
                    after[object] = value;
                    (!self.is_busy(None, object)).then_some(after)
                }
                Op::Set { .. } | Op::Abort(_) | Op::Boot => None,
            };
            let begun = seen.begun.clone();
            world.set(seen);
            match op {
                Op::Set {
                    owner,
                    object,
                    value,
                    keeps,
                } => {
                    let (object, value) = self.object(object, value);
                    self.set(owner.into(), object, value, keeps);
                }
                Op::Commit(owner) => self.commit(owner.into(), true),
                Op::Number(owner) => self.commit(owner.into(), false),
                Op::Quiet(owner, n, sweeps) => {
                    (0..n).for_each(|_| self.commit(owner.into(), sweeps));
                }
                Op::Abort(owner) => self.abort(owner.into()),
                Op::Publish {
                    object,
                    value,
                    keeps,
                } => {
                    let (object, value) = self.object(object, value);
                    self.publish(object, value, keeps, begun.is_none());
                }
                Op::Boot => return Some(self.close()),
            }
            if let Some(after) = begun {
                world.update(|w| {
                    w.committed = after;
                    w.begun = None;
                });
            }
        }
    }

    /// Which object a script means, and which value that it can have.
    fn object(&self, object: u8, value: u8) -> (usize, u32) {
        let object = usize::from(object) % self.script.objects();
        let word = self.cell(object).is_none();
        (object, u32::from(if word { value % 8 } else { value }))
    }
}

fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, Seen>, script: &Script) {
    let mut parts = split(nv);
    if !world.with(|w| w.formatted) {
        parts = format(parts, script);
        world.update(|w| {
            w.formatted = true;
            w.committed = vec![0; script.objects()];
        });
    }
    loop {
        let opened = Opened::open(parts, script);
        let content = opened.content();
        let mut seen = world.get();
        if let Some(begun) = seen.begun.take()
            && content == begun
        {
            seen.committed = begun;
        }
        assert_eq!(content, seen.committed, "what has committed");
        world.set(seen);
        match opened.run(world) {
            Some(closed) => parts = closed,
            None => return,
        }
    }
}

/// Scripts of up to so many operations, cut everywhere.
fn campaign<M: Model>(depth: u32, most: usize, cases: u32) {
    let media = || Mapped::<M>::new(bytes::<M>());
    let s = random(scripts(most), media, |nv, w: &World<'_, Seen>, script| {
        boot::<M>(nv, w, script)
    })
    .cases(programs(cases))
    .seed(seed())
    .depth(depth)
    .run();
    println!("{s}");
}

#[test]
fn in_order_16() {
    campaign::<InOrder16>(1, 60, 150);
}

#[test]
fn in_order_32() {
    campaign::<InOrder32>(2, 30, 9);
}

#[test]
fn buffered_32() {
    campaign::<Buffered32>(1, 40, 24);
}

/// What a region holds that nobody has written by rule: fields of words, and bytes of cells.
#[derive(Clone, Debug)]
struct Hostile {
    sequence: u8,
    /// The last committed number of each owner.
    last: [u8; OWNERS],
    /// Number, owner, state before, and state after; and bits above all fields.
    words: Vec<(u8, u8, u8, u8, bool)>,
    /// Of each cell its word, and which of its two versions are no values.
    cells: Vec<(u8, u8, u8, u8, bool, [bool; 2])>,
}

fn hostile() -> impl Strategy<Value = Hostile> {
    // Most are what the library could have written.
    let above = || prop_oneof![9 => Just(false), 1 => Just(true)];
    let word = |states: u8| {
        let owner = prop_oneof![9 => 0..OWNERS as u8, 1 => Just(OWNERS as u8)];
        let settled = (0..states).prop_map(|state| (0, 0, state, state, false));
        let stamped = (1..64_u8, owner, 0..states, 0..states, above());
        let unknown = (0..2_u8, 0..2_u8, 0..states, 0..states, above());
        prop_oneof![4 => settled, 4 => stamped, 1 => unknown]
    };
    let bad = prop_oneof![3 => Just([false; 2]), 1 => any::<[bool; 2]>()];
    let cell = (word(2), bad)
        .prop_map(|((n, owner, before, after, above), bad)| (n, owner, before, after, above, bad));
    let words = prop::collection::vec(word(8), 1..5);
    let cells = prop::collection::vec(cell, 1..4);
    (3..7_u8, any::<[u8; OWNERS]>(), words, cells).prop_map(|(sequence, last, words, cells)| {
        Hostile {
            sequence,
            last: last.map(|n| n & ((1 << sequence) - 1)),
            words,
            cells,
        }
    })
}

/// A word's bits, and the state that counts if the library could have written it.
fn word_of<M: Model>(
    (number, owner, before, after, above): (u8, u8, u8, u8, bool),
    widths: Widths,
    last: &[u8; OWNERS],
) -> (u32, Option<u8>) {
    let number = number & widths.max_sequence() as u8;
    let states = u32::from(before) << widths.state | u32::from(after);
    let stamp = u32::from(number) << widths.owner | u32::from(owner);
    let top = widths.sequence + widths.owner + 2 * widths.state;
    let above = above && u32::from(top) < 8 * M::Unit::BYTES as u32;
    let bits = u32::from(above) << top | stamp << (2 * widths.state) | states;
    let settled = number == 0 && owner == 0 && before == after;
    let stamped = number > 0 && usize::from(owner) < OWNERS;
    if above || !settled && !stamped {
        return (bits, None);
    }
    let in_doubt = stamped && u32::from(number) == widths.next(last[usize::from(owner)].into());
    (bits, Some(if in_doubt { before } else { after }))
}

fn hostile_on<M: Model>(hostile: &Hostile) {
    let mut memory = [const { std::mem::MaybeUninit::new(0u64) }; 12];
    let widths = |state| Widths {
        sequence: hostile.sequence,
        owner: 2,
        state,
    };
    let last = |owner: u32| hostile.last.get(owner as usize).map(|n| u32::from(*n));

    // Words: the first that nobody writes is named, and all stay as they are.
    let region = Region::<M>::new(&mut memory);
    let known: Vec<_> = (hostile.words.iter().enumerate())
        .map(|(i, word)| {
            let (bits, state) = word_of::<M>(*word, widths(3), &hostile.last);
            // SAFETY: inside, aligned, and nothing is lent.
            unsafe { region.store(i * M::Unit::BYTES, bits) };
            state
        })
        .collect();
    let before = image(&region);
    let region = match Words::recover(region, known.len(), widths(3), last) {
        Ok(words) => {
            for (i, state) in known.iter().enumerate() {
                let state = state.unwrap_or_else(|| panic!("word {i} is accepted"));
                assert_eq!(words.get(i, |_| None), Ok(state.into()), "settled");
            }
            words.close()
        }
        Err(failed) => {
            let index = known.iter().position(|state| state.is_none());
            let index = index.expect("one that nobody writes");
            assert_eq!(failed.error, TagError::Damaged { index });
            assert_eq!(image(&failed.region), before, "nothing is stored");
            failed.region
        }
    };

    // Cells: the version that counts is a value, or the cell is named.
    let n = hostile.cells.len();
    let cells = Cells::<M, Pair>::format(region, n, widths(1), Pair::of(1)).unwrap();
    let region = cells.close();
    let mut refused = None;
    for (i, (number, owner, before, after, above, bad)) in hostile.cells.iter().enumerate() {
        let word = (*number, *owner, *before, *after, *above);
        let (bits, state) = word_of::<M>(word, widths(1), &hostile.last);
        // SAFETY: as above.
        unsafe { region.store(i * M::Unit::BYTES, bits) };
        for (version, is_bad) in bad.iter().enumerate() {
            let at = Words::<M>::bytes(n) + (2 * i + version) * size_of::<Pair>();
            let odd = at + std::mem::offset_of!(Pair, odd);
            let odd = odd / M::Unit::BYTES * M::Unit::BYTES;
            let value = if *is_bad { 0x0202_0202 } else { 0 };
            // SAFETY: as above.
            unsafe { region.store(odd, value) };
        }
        if state.is_none_or(|version| bad[usize::from(version)]) && refused.is_none() {
            refused = Some(i);
        }
    }
    let opened = Cells::<M, Pair>::recover(region, n, widths(1), last);
    match (opened, refused) {
        (Ok(cells), None) => {
            let odd = |i| cells.get(i, |_| None).unwrap().odd;
            assert!((0..n).all(|i| !odd(i)));
        }
        (Ok(_), Some(i)) => panic!("cell {i} is accepted"),
        (Err(failed), refused) => match failed.error {
            TagError::Damaged { index } | TagError::Invalid { index, .. } => {
                assert_eq!(Some(index), refused);
            }
            error => panic!("{error}"),
        },
    }
}

/// Whatever a region holds is refused, or it is what the rules say.
#[test]
fn hostile_regions() {
    cases(300, hostile(), |hostile| {
        hostile_on::<InOrder16>(hostile);
        hostile_on::<InOrder32>(hostile);
    });
}
