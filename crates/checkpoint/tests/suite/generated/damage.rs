//! Damage, and a bus that misreads. A load gives back a checkpoint as it was saved, or an error; it
//! says so if it is not the newest; and the program can go on.
//!
//! With one flipped bit, slots lose one image at most. In a log the checkpoints share what they
//! have in common, so one bit may damage all.

use super::each;
use super::stores::{InLog, InSlots, Layout};
use crate::faulty::{Control, Fault, Faulty, Part};
use checkpoint::{CopyIfChange, Error, Full, Memory, Restored, Split, Store};
use nvmem::device::{Contract, Medium};
use nvmem::ram::{RamFram, RamNor};
use proptest::prelude::*;
use std::cell::Cell;
use std::fmt;

/// Bytes of memory: more cells than one record of a log can name.
const RAM: usize = 900;
const CELL: usize = 32;

/// What a program does.
#[derive(Clone, Debug)]
struct Program {
    adaptive: bool,
    /// Before each save: every so many cells get this byte, from one cell on.
    saves: Vec<(usize, usize, u8)>,
    /// The last save fails there.
    fails: u8,
    /// Which bits of what was written are flipped.
    flips: Vec<(u32, u8)>,
}

fn programs() -> impl Strategy<Value = Program> {
    let save = (0..20usize, 1..6usize, any::<u8>());
    let saves = prop::collection::vec(save, 2..7);
    let flips = prop::collection::vec((any::<u32>(), 0..8u8), 1..3);
    (any::<bool>(), saves, 0..40u8, flips).prop_map(|(adaptive, saves, fails, flips)| Program {
        adaptive,
        saves,
        fails,
        flips,
    })
}

impl Program {
    /// Memory at each save. The last one is one more, for the program that goes on.
    fn contents(&self) -> Vec<Vec<u8>> {
        let mut ram: Vec<u8> = (0..RAM).map(|i| (i / CELL) as u8).collect();
        let mut all = vec![];
        for (n, (from, step, byte)) in self.saves.iter().chain(&[(0, 2, 77)]).enumerate() {
            ram[0] = n as u8;
            for cell in ram.chunks_mut(CELL).skip(*from).step_by(*step) {
                cell[1..].fill(*byte);
            }
            all.push(ram.clone());
        }
        all
    }
}

fn memory(ram: &mut [u8]) -> Memory<'_> {
    Memory::new(ram, &mut [], &mut [])
}

const BUILD: u64 = 5;
const GARBAGE: u8 = 0xA5;

/// Loads, and returns the number of the checkpoint. Whatever the medium is like, it is one that was
/// saved, or memory is unchanged, or the error says that a part of it was written.
fn load<S: Store>(store: &mut S, contents: &[Vec<u8>]) -> Result<Restored, Error<S::Error>> {
    let mut found = vec![GARBAGE; RAM];
    let loaded = store.load(&mut memory(&mut found));
    match &loaded {
        Ok(r) => assert!(
            found == contents[r.context as usize],
            "it was never saved: {r:?}"
        ),
        Err(Error::PartlyRestored) => {}
        Err(e) => assert!(
            found == [GARBAGE; RAM],
            "{e:?} after a part of it was restored"
        ),
    }
    loaded
}

/// Takes the first `count` checkpoints, at most three in each boot.
fn saved<L: Layout, D: Medium>(nv: &mut D, p: &Program, contents: &[Vec<u8>], count: usize) {
    let mut saves = (0..count).peekable();
    while let Some(first) = saves.peek().copied() {
        let mut store = L::open(&mut *nv, BUILD, p.adaptive).expect("room");
        let loaded = load(&mut store, contents);
        assert_eq!(loaded.is_ok(), first > 0, "{loaded:?}");
        for n in saves.by_ref().take(3) {
            let content = &mut contents[n].clone();
            store.save(&memory(content), n as u32).expect("room");
        }
    }
}

/// A medium in RAM, whose bytes the test can change.
trait Bytes: Medium + Clone {
    fn bytes(&mut self) -> &mut [u8];
}

impl<const N: usize> Bytes for RamFram<N> {
    fn bytes(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl<const N: usize, const UNIT: usize, const WORD: usize> Bytes for RamNor<N, UNIT, WORD> {
    fn bytes(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

/// Flips bits of what was written.
fn damaged<L: Layout, D: Bytes>(mut nv: D, p: &Program, slots: Option<usize>) {
    let contents = p.contents();
    let newest = p.saves.len() - 1;
    let blank = nv.bytes()[0];
    saved::<L, _>(&mut nv, p, &contents, newest + 1);
    let written: Vec<usize> = (0..nv.bytes().len())
        .filter(|i| nv.bytes()[*i] != blank)
        .collect();
    for (at, bit) in &p.flips {
        nv.bytes()[written[*at as usize % written.len()]] ^= 1 << bit;
    }

    let mut store = L::open(&mut nv, BUILD, p.adaptive).expect("room");
    let loaded = load(&mut store, &contents);
    // Each flipped bit is in one image.
    let lost = p.flips.len();
    let least = slots
        .filter(|n| lost < *n.min(&p.saves.len()))
        .map(|_| newest - lost);
    match loaded {
        Ok(r) if r.context as usize == newest => {}
        Ok(r) => {
            assert!(r.damaged + r.unfinished > 0, "it is not reported: {r:?}");
            assert!(
                least.is_none_or(|l| l <= r.context as usize),
                "{r:?}, not {least:?}"
            );
        }
        Err(Error::Damaged | Error::NoImage | Error::OlderFormat) => {
            assert_eq!(least, None, "an intact one is lost");
        }
        Err(e) => panic!("{e:?}"),
    }
    let next = newest + 1;
    let content = &mut contents[next].clone();
    store
        .save(&memory(content), next as u32)
        .expect("it goes on");
    let r = load(&mut store, &contents).expect("it goes on");
    assert_eq!((r.context as usize, r.damaged), (next, 0));
}

/// What a read gives that is wrong once.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// One bit is flipped.
    Bit(u32),
    /// The bytes are those of another address: this bit of it is flipped.
    Address(u32),
}

/// A medium of which one read is wrong.
struct Misread<'d, D> {
    nv: &'d mut D,
    reads: &'d Cell<u32>,
    wrong: Option<(u32, Wrong)>,
    /// Addresses are misread below this one.
    below: u32,
}

impl<D: Medium> Medium for Misread<'_, D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.nv.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        let before = self.reads.replace(self.reads.get() + 1);
        let wrong = self
            .wrong
            .filter(|(nth, _)| *nth == before)
            .map(|(_, wrong)| wrong);
        if let Some(Wrong::Address(bit)) = wrong {
            let other = at ^ 1 << bit;
            if at.max(other) + buf.len() as u32 <= self.below {
                return self.nv.read(other, buf);
            }
        }
        self.nv.read(at, buf)?;
        if let Some(Wrong::Bit(bit)) = wrong {
            let bit = bit as usize % (8 * buf.len());
            buf[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.nv.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.nv.erase(from, to)
    }
    fn flush(&mut self) -> Result<(), D::Error> {
        self.nv.flush()
    }
}

impl<D: fmt::Debug> fmt::Debug for Misread<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.wrong)
    }
}

/// Misreads each read of a load, after a save that failed. Addresses are misread below `below`: a
/// cell of a log has a check of 16 bits only, with which another cell may agree.
fn misread<L: Layout, D: Bytes>(mut nv: D, p: &Program, below: u32) {
    let contents = p.contents();
    let newest = p.saves.len() - 1;
    saved::<L, _>(&mut nv, p, &contents, newest);
    let control = Control::new();
    let mut store = L::open(Faulty::new(&mut nv, &control), BUILD, p.adaptive).expect("room");
    load(&mut store, &contents).expect("one was saved");
    control.meets(Fault::Change(p.fails, Part::All));
    let last = store.save(&memory(&mut contents[newest].clone()), newest as u32);
    let least = if last.is_ok() { newest } else { newest - 1 };
    drop(store);

    let wrong = |nth| {
        let bit = p.flips[0].0.wrapping_mul(nth + 1);
        (0..12).map(Wrong::Address).chain([Wrong::Bit(bit)])
    };
    for nth in 0.. {
        let reads = Cell::new(0);
        for wrong in wrong(nth) {
            let mut nv = nv.clone();
            reads.set(0);
            let medium = Misread {
                nv: &mut nv,
                reads: &reads,
                wrong: Some((nth, wrong)),
                below,
            };
            if let Ok(mut store) = L::open(medium, BUILD, p.adaptive) {
                load(&mut store, &contents).ok();
            }
            // What it has written for that is right, too.
            let mut store = L::open(&mut nv, BUILD, p.adaptive).expect("room");
            let r = load(&mut store, &contents);
            let r = r.unwrap_or_else(|e| panic!("{wrong:?} at read {nth}: {e:?}"));
            assert!(
                r.context as usize + 1 >= least,
                "{wrong:?} at read {nth}: {r:?}"
            );
        }
        if reads.get() <= nth {
            break;
        }
    }
}

/// Words of 16 bytes.
type Flash = RamNor<32, 256, 16>;
type Fram = RamFram<8192>;

#[test]
fn damage() {
    each(programs(), 400, |p| {
        let fram = Fram::filled(0);
        damaged::<InSlots<Split, 2>, _>(fram.clone(), &p, Some(2));
        damaged::<InSlots<CopyIfChange<Full>, 3>, _>(Flash::new(), &p, Some(3));
        damaged::<InLog<CELL>, _>(fram, &p, None);
        damaged::<InLog<CELL>, _>(Flash::new(), &p, None);
    });
}

#[test]
#[cfg_attr(miri, ignore = "thousands of loads")]
fn misreads() {
    each(programs(), 6, |p| {
        let (fram, all) = (Fram::filled(0), u32::MAX);
        misread::<InSlots<Split, 2>, _>(fram.clone(), &p, all);
        misread::<InSlots<CopyIfChange<Full>, 3>, _>(Flash::new(), &p, all);
        // The records are in front.
        misread::<InLog<CELL>, _>(fram, &p, 2 * 128);
        misread::<InLog<CELL>, _>(Flash::new(), &p, 8 * 256);
    });
}
