//! Histories of several power cuts. Each test says which operations are cut, and how torn words
//! read at each boot.

use crate::support::torn_flash::{Off, Op, TornFlash};
use checkpoint::nvmem::device::{Contract, Medium, Misuse, Torn};
use checkpoint::nvmem::ram::RamFram;
use checkpoint::{
    Archive, CopyIfChange, Error, Full, Images, KeepLast, Log, Memory, Mode, Restored, Store,
};
use std::cell::Cell;

const PROGRAM: u64 = 7;

/// Three slots of 128 bytes, with words of 16 and erase units of 32. An image takes 96 bytes, and
/// 16 for each marker word.
type Slots = TornFlash<16, 32>;
const SLOT: u32 = 128;
const MARK: u32 = 96;

fn slots() -> Slots {
    Slots::new(3 * SLOT as usize)
}

/// A boot of a program whose memory and context never change: restores, then takes so many
/// checkpoints. Returns the sequence number of the restored image.
fn boot(d: &mut Slots, mode: &impl Mode, checkpoints: u32) -> Result<Option<u32>, Error<Off>> {
    let (mut a, mut b) = ([0; 12], [0; 16]);
    let all = 0..d.capacity();
    let mut images = Images::<_, 3>::open(d, all, PROGRAM)?;
    let found = match images.restore(&mut Memory::new(&mut a, &mut [], &mut b)) {
        Ok(r) => {
            assert_eq!((a, b), ([3; 12], [5; 16]), "restored");
            assert_eq!(r.damaged, 0, "no power cut damages an image");
            Some(r.sequence)
        }
        Err(Error::NoImage) => None,
        Err(e) => return Err(e),
    };
    (a, b) = ([3; 12], [5; 16]);
    for _ in 0..checkpoints {
        images.checkpoint(mode, &Memory::new(&mut a, &mut [], &mut b), 9)?;
    }
    Ok(found)
}

/// The same boot, with a cut in it.
fn boot_until(d: &mut Slots, mode: &impl Mode, skip: u32, cut: fn(Op) -> bool) {
    d.boot_until(skip, cut);
    let r = boot(d, mode, 1);
    assert_eq!(r, Err(Error::Medium(Off)), "the power goes");
    d.boot();
}

/// The first checkpoint is cut in its commit marker, so no image is known to be stable. Each
/// restore copies it and is cut in the copy's trailer. In the end no copy is readable, but the
/// original image still is.
#[test]
fn what_is_copied_outlives_its_copies() {
    let mut d = slots();
    boot_until(&mut d, &Full, 0, |op| op == Op::Program(MARK));
    for _ in 0..4 {
        // The trailer is in the last word before the marker.
        boot_until(
            &mut d,
            &Full,
            0,
            |op| matches!(op, Op::Program(at) if at % SLOT == MARK - 16),
        );
        d.last_reads(true);
    }
    d.reads(0..3 * SLOT, false);
    assert_eq!(boot(&mut d, &Full, 0), Ok(Some(6)), "the image is lost");
}

/// The third checkpoint is cut in its commit marker, and reads as marked or not. A program rolls
/// back to the newest that is listed, without a restore. Then the marker reads the other way.
#[test]
fn a_rollback_to_the_newest_is_stable() {
    for reads_new in [true, false] {
        a_rollback(reads_new);
    }
}

fn a_rollback(reads_new: bool) {
    let mut d = slots();
    fn open(d: &mut Slots) -> Result<Archive<&mut Slots, Full, KeepLast, 3>, Error<Off>> {
        let all = 0..d.capacity();
        Archive::open(d, all, PROGRAM, Full, KeepLast)
    }
    let (mut a, mut b) = ([3; 12], [5; 16]);
    let memory = Memory::new(&mut a, &mut [], &mut b);
    d.boot_until(2, |op| matches!(op, Op::Program(at) if at % SLOT == MARK));
    for n in 1..=3 {
        let mut archive = open(&mut d).expect("power");
        let taken = archive.checkpoint(n, &memory, n);
        assert_eq!(taken.is_ok(), n < 3);
    }
    d.boot();
    d.last_reads(reads_new);
    let mut archive = open(&mut d).expect("power");
    let newest = archive.list().expect("power")[0].expect("two are stable");
    assert_eq!(newest.context, if reads_new { 3 } else { 2 });
    archive.roll_back(newest.sequence, &memory).expect("power");
    d.reads(0..3 * SLOT, !reads_new);
    let list = open(&mut d).and_then(|mut archive| archive.list());
    let found = list.expect("power")[0].expect("three are kept");
    assert_eq!(found.context, newest.context, "the rollback had returned");
}

/// A slot with an image that looks complete, with one torn unit in the middle. Its head equals that
/// of the next image: the program takes the same checkpoint again and again.
///
/// The third checkpoint is cut in its commit marker. The next boot begins to overwrite it and is
/// cut in the erase of the first unit, so its sequence number is forgotten. The boot after that
/// reuses the number, and is cut in the erase of the second unit.
fn torn_in_the_middle() -> Slots {
    const TORN: u32 = 2 * SLOT;
    let mode = CopyIfChange(Full);
    let mut d = slots();
    assert_eq!(boot(&mut d, &mode, 2), Ok(None));
    boot_until(&mut d, &mode, 0, |op| op == Op::Program(TORN + MARK));
    boot_until(&mut d, &mode, 0, |op| op == Op::Erase(TORN));
    d.last_reads(true);
    boot_until(&mut d, &mode, 0, |op| op == Op::Erase(TORN + 32));
    d
}

/// A torn unit must not be taken for equal, or it stays torn in a valid image.
fn is_written_again(mut d: Slots) {
    d.boot();
    let mode = CopyIfChange(Full);
    let last = boot(&mut d, &mode, 1).expect("power").expect("an image");
    // The content that a checkpoint wrote does not depend on how torn words read.
    for reads_new in [true, false] {
        let mut d = d.clone();
        d.reads(0..3 * SLOT, reads_new);
        assert!(boot(&mut d, &mode, 0).expect("power") > Some(last));
    }
}

#[test]
fn a_slot_without_a_mark_is_not_compared() {
    is_written_again(torn_in_the_middle());
}

#[test]
fn a_slot_whose_mark_may_be_torn_is_not_compared() {
    let mut d = torn_in_the_middle();
    d.reads(2 * SLOT + MARK..2 * SLOT + MARK + 1, true);
    is_written_again(d);
}

/// Four anchors with space for three records each. Records, markers and cells take one word each.
type Anchors = TornFlash<256, 768>;
const FRONT: u32 = 4 * 768;
const UNITS: u32 = 8;

fn anchors() -> Anchors {
    Anchors::new((FRONT + UNITS * 768) as usize)
}

type TheLog<'d> = Log<&'d mut Anchors, 2, { UNITS as usize }, 256>;

fn open(d: &mut Anchors) -> TheLog<'_> {
    let all = 0..d.capacity();
    Log::open(d, all, PROGRAM).expect("sound")
}

/// Restores, and returns the number of the checkpoint, or 0.
fn load(log: &mut TheLog<'_>) -> Result<u32, Error<Off>> {
    let mut a = [0; 300];
    match log.load(&mut Memory::new(&mut a, &mut [], &mut [])) {
        Ok(Restored {
            context, damaged, ..
        }) => {
            assert_eq!(a, [context as u8; 300], "a mixture");
            assert_eq!(damaged, 0, "no power cut damages a checkpoint");
            Ok(context)
        }
        Err(Error::NoImage) => Ok(0),
        Err(e) => Err(e),
    }
}

/// A boot: restores and takes the next checkpoint, whose number it returns.
fn next(d: &mut Anchors) -> Result<u32, Error<Off>> {
    let mut log = open(d);
    let n = load(&mut log)? + 1;
    log.save(&Memory::new(&mut [n as u8; 300], &mut [], &mut []), n)?;
    Ok(n)
}

fn in_anchor(op: Op) -> bool {
    matches!(op, Op::Program(at) if at < FRONT)
}

/// Several boots of one checkpoint each. The last one is cut in its record, behind a copy and its
/// marker. Returns the valid checkpoint.
fn cut_in_a_record(boots: u32) -> (Anchors, u32) {
    let mut d = anchors();
    for n in 1..=boots {
        assert_eq!(next(&mut d), Ok(n));
    }
    // Two of these words are the copy and its marker.
    d.boot_until(2, in_anchor);
    assert_eq!(next(&mut d), Err(Error::Medium(Off)));
    d.boot();
    (d, boots)
}

/// Numbers of boots, so that the anchors are used in each order.
const BOOTS: std::ops::Range<u32> = if cfg!(miri) { 4..5 } else { 2..12 };

/// The record is read, so it is copied. The copy is cut, but readable, without its marker. A boot
/// that continues from it must copy it again.
#[test]
fn a_copy_without_its_mark_is_copied_again() {
    for boots in BOOTS {
        let (mut d, _) = cut_in_a_record(boots);
        d.last_reads(true);
        d.boot_until(0, in_anchor);
        assert_eq!(load(&mut open(&mut d)), Err(Error::Medium(Off)));
        d.boot();
        d.last_reads(true);
        let seen = load(&mut open(&mut d)).expect("power");
        assert_eq!(seen, boots + 1);
        d.reads(0..FRONT, false);
        assert_eq!(load(&mut open(&mut d)), Ok(seen), "{boots}: an older state");
    }
}

/// The record is unreadable at first, so the next boot continues from the one before and erases the
/// cells of the cut one. Then the cut record becomes readable.
#[test]
fn a_record_that_is_read_late_has_a_lower_number() {
    for boots in BOOTS {
        for cells in 0..3 {
            let (mut d, n) = cut_in_a_record(boots);
            d.boot_until(cells, |op| matches!(op, Op::Program(at) if at >= FRONT));
            if next(&mut d).is_ok() {
                continue;
            }
            d.boot();
            d.reads(0..FRONT, true);
            assert_eq!(load(&mut open(&mut d)), Ok(n), "{boots}: not its own state");
        }
    }
}

/// The record is read. Its copy is cut, and read; the copy of that copy is cut, and so on. In the
/// end none of them is readable.
#[test]
fn the_base_is_a_record_that_is_stable() {
    for boots in BOOTS {
        let (mut d, n) = cut_in_a_record(boots);
        for copies in 0..6 {
            d.last_reads(true);
            let mut last = d.clone();
            last.reads(0..FRONT, false);
            assert_eq!(load(&mut open(&mut last)), Ok(n), "{boots} {copies}: lost");
            d.boot_until(0, in_anchor);
            assert_eq!(load(&mut open(&mut d)), Err(Error::Medium(Off)));
            d.boot();
        }
    }
}

/// A buffered medium that knows whether anything was written and not flushed.
pub struct Buffered<'f, const SIZE: usize>(pub RamFram<SIZE>, pub &'f Cell<bool>);

impl<const SIZE: usize> Medium for Buffered<'_, SIZE> {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "buffered",
        torn: Torn::Subset,
        unit: 4,
        ..<RamFram<SIZE> as Medium>::CONTRACT
    };
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.1.set(true);
        self.0.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.0.erase(from, to)
    }
    fn flush(&mut self) -> Result<(), Misuse> {
        self.1.set(false);
        Ok(())
    }
}

/// After an operation returned, everything is on the medium.
#[test]
fn what_has_returned_was_flushed() {
    let open = Cell::new(false);
    let blank = || Buffered(RamFram::<1024>::filled(0), &open);
    let (mut a, mut b) = ([1; 40], [2; 40]);
    let memory = Memory::new(&mut a, &mut [], &mut b);
    let flushed = |what: &str| assert!(!open.get(), "{what} returned before a flush");

    let mut images = Images::<_, 2>::open(blank(), 0..1024, PROGRAM).expect("room");
    images.checkpoint(&Full, &memory, 1).expect("room");
    flushed("a checkpoint as it is");
    images
        .checkpoint(&CopyIfChange(Full), &memory, 2)
        .expect("room");
    flushed("a checkpoint in pieces");

    let mut log = Log::<_, 8, 8, 32>::open(blank(), 0..1024, PROGRAM).expect("room");
    log.save(&memory, 1).expect("room");
    flushed("a checkpoint of a log");

    let mut archive =
        Archive::<_, _, _, 4>::open(blank(), 0..1024, PROGRAM, Full, KeepLast).expect("room");
    for n in 0..2 {
        archive.checkpoint(n, &memory, n).expect("room");
        flushed("a checkpoint with a name");
    }
    let [_, Some(older), ..] = archive.list().expect("inside") else {
        panic!("two are kept")
    };
    archive.roll_back(older.sequence, &memory).expect("there");
    flushed("a rollback");
    archive.delete(older.sequence).expect("there");
    flushed("a deletion");
}
