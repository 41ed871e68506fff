//! A record whose program goes on after errors and dropped futures.
//!
//! The judge: a value that was set or read last, and each whose `set` was begun later, may be found
//! by the next open. What an open has found is never taken back.

use super::cases;
use super::media::{Overwrites, Words32, fault, flash};
use crate::faulty::{Control, Failed, Fault, Faulty, finish};
use crate::runs::{programs, seed};
use crate::support::{Small, Tiny};
use nvmem::asynch::Record as AsyncRecord;
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamNor};
use nvmem::record::RecordError;
use nvmem::{Buffered32, InOrder16, Record};
use powerfail::{
    BufferedNor, Chip, Device, Mapped, Media, Mram16, Simulated, SpiFram, World, explore_with,
    random,
};
use proptest::prelude::*;
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

/// A value: its number, and bytes that follow from it.
type Value = [u32; 5];
/// The same in an older version of the program.
type Old = [u32; 2];

fn value(n: u32) -> Value {
    let mixed = n.wrapping_mul(0x9E37_79B9);
    [n, mixed, !n, mixed.rotate_left(7), n ^ 0x5A5A]
}

fn old_value(n: u32) -> Old {
    [n, !n]
}

fn migrated(old: Old) -> Value {
    assert_eq!(old, old_value(old[0]), "a mixture");
    value(old[0])
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Set(Fault),
    /// The record is opened again, without a power cut.
    Open(Fault),
    /// Reads the value from the medium, without an object.
    Read(Fault),
    /// Deletes all content.
    Format(Fault),
}

#[derive(Clone, PartialEq)]
pub struct Script {
    /// The async form, whose futures are dropped.
    pub asynch: bool,
    /// So many operations are those of an older version, whose value has another type.
    pub older: u32,
    pub ops: Vec<Op>,
}

/// As a test for found.rs.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Script { asynch, older, ops } = self;
        writeln!(
            f,
            "record::Script {{\n    asynch: {asynch},\n    older: {older},"
        )?;
        write!(f, "    ops: vec!{ops:?},\n}}")
    }
}

pub fn scripts(most: usize, updates: bool) -> impl Strategy<Value = Script> {
    let op = prop_oneof![
        8 => fault().prop_map(Op::Set),
        4 => fault().prop_map(Op::Open),
        1 => fault().prop_map(Op::Read),
        1 => fault().prop_map(Op::Format),
    ];
    let older = prop_oneof![2 => Just(0), u32::from(updates) => 0..most as u32];
    (any::<bool>(), older, prop::collection::vec(op, 2..=most))
        .prop_map(|(asynch, older, ops)| Script { asynch, older, ops })
}

/// Sets and opens, most of which meet no fault: what chains of cuts interrupt.
fn sets(most: usize) -> impl Strategy<Value = Script> {
    let op = prop_oneof![
        6 => Just(Op::Set(Fault::None)),
        1 => Just(Op::Open(Fault::None)),
        1 => fault().prop_map(Op::Set),
    ];
    (any::<bool>(), prop::collection::vec(op, 3..=most)).prop_map(|(asynch, ops)| Script {
        asynch,
        older: 0,
        ops,
    })
}

/// What the world knows.
#[derive(Clone, Hash, Debug)]
pub struct Seen {
    /// Operations that were begun.
    at: u32,
    /// The values that the next open may find, the oldest first.
    possible: Vec<u32>,
    /// A format was begun and has not returned: an open may refuse the range, and on flash find
    /// an older value whose slot was in the bank of the newest.
    formatting: bool,
    /// Values that were ever begun.
    begun: Vec<u32>,
    /// Boots since the last change that has returned.
    boots: u32,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            at: 0,
            possible: vec![0],
            formatting: false,
            begun: vec![0],
            boots: 0,
        }
    }
}

impl Seen {
    /// The next open may find this value, too.
    fn begins(&mut self, n: u32) {
        self.possible.push(n);
        self.begun.push(n);
    }

    /// Three cuts in a row, on flash: more than a record survives. docs/failure-model/nvmem.md.
    fn may_be_lost(&self, flash: bool) -> bool {
        flash && self.boots > 3
    }

    /// This value was set.
    fn was_set(&mut self, n: u32) {
        self.counts(n);
        self.boots = 1;
    }

    /// This value counts: it was set, or an open has found it.
    fn counts(&mut self, n: u32) {
        self.possible = vec![n];
        self.formatting = false;
    }

    #[track_caller]
    fn finds(&mut self, n: u32, flash: bool) {
        let older = flash && self.formatting && self.begun.contains(&n);
        assert!(
            older || self.possible.contains(&n) || self.may_be_lost(flash),
            "{n} is found, and possible are {:?}",
            self.possible
        );
        self.counts(n);
    }
}

/// What a call gives; `None` if its future was dropped.
type Done<T> = Option<Result<T, RecordError<Failed>>>;

/// A record in one of its forms, of one of its types.
trait Form {
    type In<'m, D: Medium + 'm>;
    fn open<D: Medium>(nv: &mut Faulty<D>, fault: Fault) -> Done<Self::In<'_, D>>;
    fn format<D: Medium>(nv: &mut Faulty<D>, n: u32, fault: Fault) -> Done<Self::In<'_, D>>;
    fn read<D: Medium>(nv: &mut Faulty<D>, fault: Fault) -> Done<Option<u32>>;
    fn set<'m, D: Medium + 'm>(record: &mut Self::In<'m, D>, n: u32, fault: Fault) -> Done<()>;
    /// The number of its value.
    fn number<'m, D: Medium + 'm>(record: &Self::In<'m, D>) -> u32;
}

macro_rules! form {
    ($form:ident: $record:ident<$type:ty>, $value:ident, $finish:ident, $open:ident($($migrate:ident)?)) => {
        enum $form {}
        impl Form for $form {
            type In<'m, D: Medium + 'm> = $record<$type, &'m mut Faulty<D>>;

            fn open<D: Medium>(nv: &mut Faulty<D>, fault: Fault) -> Done<Self::In<'_, D>> {
                let all = 0..Medium::capacity(nv);
                $finish($record::$open(nv, all, $value(0) $(, $migrate)?), fault)
            }
            fn format<D: Medium>(
                nv: &mut Faulty<D>,
                n: u32,
                fault: Fault,
            ) -> Done<Self::In<'_, D>> {
                let all = 0..Medium::capacity(nv);
                $finish($record::format(nv, all, $value(n)), fault)
            }
            fn read<D: Medium>(nv: &mut Faulty<D>, fault: Fault) -> Done<Option<u32>> {
                let all = 0..Medium::capacity(nv);
                let found = $finish($record::<$type, _>::read(nv, all), fault);
                found.map(|found| found.map(|value| value.map(|value| value[0])))
            }
            fn set<'m, D: Medium + 'm>(
        record: &mut Self::In<'m, D>,
        n: u32,
        fault: Fault,
    ) -> Done<()> {
                $finish(record.set($value(n)), fault)
            }
            fn number<'m, D: Medium + 'm>(record: &Self::In<'m, D>) -> u32 {
                let found = *record.get();
                assert_eq!(found, $value(found[0]), "a mixture");
                found[0]
            }
        }
    };
}

fn at_once<T>(done: T, _: Fault) -> Option<T> {
    Some(done)
}

form!(OldBlocking: Record<Old>, old_value, at_once, open());
form!(Blocking: Record<Value>, value, at_once, open_or_migrate(migrated));
form!(OldAsync: AsyncRecord<Old>, old_value, finish, open());
form!(Async: AsyncRecord<Value>, value, finish, open_or_migrate(migrated));

/// One boot of a script, from the operation after the one where the last boot was cut.
pub fn boot<D: Medium>(nv: D, world: &World<'_, Seen>, script: &Script) {
    world.update(|w| w.boots = 4.min(w.boots + 1));
    let control = Control::new();
    let mut nv = Faulty::new(nv, &control);
    let run = Run {
        control,
        world,
        script,
    };
    let mut op = Op::Open(Fault::None);
    loop {
        // A format that has not returned is called again.
        if world.with(|w| w.formatting) && !matches!(op, Op::Format(_)) {
            run.peek(&mut nv);
            op = Op::Format(Fault::None);
        }
        let older = world.with(|w| w.at) < script.older;
        let next = match (script.asynch, older) {
            (false, true) => run.session::<OldBlocking, _>(&mut nv, op),
            (false, false) => run.session::<Blocking, _>(&mut nv, op),
            (true, true) => run.session::<OldAsync, _>(&mut nv, op),
            (true, false) => run.session::<Async, _>(&mut nv, op),
        };
        match next {
            Some(next) => op = next,
            None => return,
        }
    }
}

struct Run<'w, 'r> {
    control: Rc<Control>,
    world: &'w World<'r, Seen>,
    script: &'w Script,
}

impl Run<'_, '_> {
    /// The next operation, which is begun.
    fn next(&self) -> Option<(u32, Op)> {
        let at = self.world.with(|w| w.at);
        let op = *self.script.ops.get(at as usize)?;
        let n = at + 1;
        self.world.update(|w| {
            w.at = n;
            match op {
                Op::Set(_) => w.begins(n),
                Op::Format(_) => {
                    w.begins(n);
                    // What an open gives a blank range.
                    w.begins(0);
                    w.formatting = true;
                }
                Op::Open(_) | Op::Read(_) => {}
            }
        });
        Some((n, op))
    }

    /// The result of a call. `None` if it was dropped, or failed, which it does if and only if the
    /// medium has.
    #[track_caller]
    fn done<T>(&self, call: &str, done: Done<T>) -> Option<T> {
        let failed = self.control.has_failed();
        match done? {
            Ok(done) => {
                assert!(!failed, "{call}: an error of the medium is lost");
                Some(done)
            }
            Err(RecordError::Medium(Failed)) if failed => None,
            Err(e) => panic!("{call}: {e}"),
        }
    }

    /// Does an operation that needs no object, or makes one; then those with this object. Returns
    /// the next operation, and `None` at the end of the script.
    fn session<F: Form, D: Medium>(&self, nv: &mut Faulty<D>, op: Op) -> Option<Op> {
        let world = self.world;
        let again = Some(Op::Open(Fault::None));
        let n = world.with(|w| w.at);
        let mut record = match op {
            Op::Open(fault) => {
                self.control.meets(fault);
                let opened = F::open(nv, fault);
                let flash = <D as Medium>::CONTRACT.erase.is_some();
                if let Some(Err(RecordError::Foreign | RecordError::Damaged)) = opened
                    && world.with(|w| w.formatting)
                {
                    // A format that was cut left this.
                    return Some(Op::Format(Fault::None));
                }
                let Some(record) = self.done("open", opened) else {
                    return again;
                };
                world.update(|w| w.finds(F::number::<D>(&record), flash));
                record
            }
            Op::Format(fault) => {
                self.control.meets(fault);
                let Some(record) = self.done("format", F::format(nv, n, fault)) else {
                    return again;
                };
                world.update(|w| w.was_set(n));
                record
            }
            Op::Read(fault) => {
                self.control.meets(fault);
                self.read::<D>(F::read(nv, fault));
                return again;
            }
            Op::Set(_) => unreachable!("it needs an object"),
        };
        loop {
            let before = F::number::<D>(&record);
            let (n, op) = self.next()?;
            let Op::Set(fault) = op else {
                return Some(op);
            };
            self.control.meets(fault);
            let done = F::set::<D>(&mut record, n, fault);
            let mut expected = before;
            if self.done("set", done).is_some() {
                world.update(|w| w.was_set(n));
                expected = n;
            }
            assert_eq!(F::number::<D>(&record), expected, "the value in RAM");
            if n == self.script.older {
                return again;
            }
        }
    }

    /// Reads what a format has left that was cut.
    fn peek<D: Medium>(&self, nv: &mut Faulty<D>) {
        self.control.meets(Fault::None);
        let older = self.world.with(|w| w.at) <= self.script.older;
        let read = match older {
            true => OldBlocking::read(nv, Fault::None),
            false => Blocking::read(nv, Fault::None),
        };
        self.read::<D>(read);
    }

    /// What is read without an object may read differently at the next boot.
    fn read<D: Medium>(&self, read: Done<Option<u32>>) {
        let seen = self.world.get();
        let flash = <D as Medium>::CONTRACT.erase.is_some();
        match read {
            // The value has the older type until an open of the newer program returns.
            Some(Err(RecordError::Layout(_))) if self.script.older > 0 => {}
            Some(Err(RecordError::Foreign | RecordError::Damaged)) if seen.formatting => {}
            read => match self.done("read", read) {
                Some(Some(n)) => {
                    let older = flash && seen.formatting && seen.begun.contains(&n);
                    assert!(older || seen.possible.contains(&n), "{n} is read: {seen:?}");
                }
                Some(None) => assert!(seen.formatting || seen.possible[0] == 0, "it is blank"),
                None => {}
            },
        }
    }
}

/// A script, cut everywhere.
pub fn cut_everywhere<M: Media>(media: M, script: Script)
where
    for<'r> M::Nv<'r>: Medium,
{
    let e = explore_with(script, media, |nv, w: &World<'_, Seen>, script| {
        boot(nv, w, script)
    });
    e.run();
}

/// Scripts of up to so many operations, cut everywhere.
fn campaign<M: Media>(media: fn() -> M, most: usize, cases: u32)
where
    for<'r> M::Nv<'r>: Medium,
{
    scripts_on(media, scripts(most, true), cases);
}

fn scripts_on<M: Media>(media: fn() -> M, scripts: impl Strategy<Value = Script>, cases: u32)
where
    for<'r> M::Nv<'r>: Medium,
{
    let s = random(scripts, media, |nv, w: &World<'_, Seen>, script| {
        boot(nv, w, script)
    })
    .cases(programs(cases))
    .seed(seed())
    .run();
    println!("{s}");
}

/// Bytes of a flash whose banks have so many slots.
pub const fn bytes<C: Chip>(slots: u32) -> usize {
    Record::<Value, Device<'_, C>>::bytes(slots) as usize
}

#[test]
fn serial_fram() {
    campaign(|| Simulated::<SpiFram>::new(bytes::<SpiFram>(1)), 12, 10);
}

#[test]
fn mram() {
    campaign(|| Simulated::<Mram16>::new(bytes::<Mram16>(1)), 14, 10);
}

#[test]
fn in_order() {
    campaign(|| Mapped::<InOrder16>::new(96), 12, 10);
}

#[test]
fn buffered() {
    campaign(|| Mapped::<Buffered32>::new(96), 10, 4);
}

#[test]
fn flash_of_one_slot() {
    campaign(|| flash::<Tiny>(bytes::<Tiny>(1)), 16, 8);
}

#[test]
fn flash_of_several_slots() {
    campaign(|| flash::<Words32>(3 * 768), 16, 10);
}

#[test]
fn flash_with_overwrites() {
    campaign(|| flash::<Overwrites>(3 * 512), 16, 8);
}

#[test]
fn buffered_flash() {
    campaign(|| flash::<BufferedNor>(bytes::<BufferedNor>(2)), 10, 2);
}

/// Chains of cuts: one operation is cut, the next is completed, and one after it is cut. Of the
/// last cut's states one in so many is booted.
fn chains<C: Chip>(media: fn() -> Simulated<C>, most: usize, n: u32, depth: u32, one_in: u32) {
    cases(n, sets(most), |script| {
        let e = explore_with(
            script.clone(),
            media(),
            |nv, w: &World<'_, Seen>, script| boot(nv, w, script),
        );
        println!("{}", e.depth(depth).one_in(one_in).run());
    });
}

/// Banks of one slot of few words.
type OneSlot = Small<96, 16, 16, true>;
/// Banks of two slots, whose words may be overwritten with zeros.
type TwoSlots = Small<192, 16, 16, false>;

/// A flash whose banks all hold a slot with the value 0.
fn used<const UNITS: usize, const ERASE: usize, const ONCE: bool>(sets: u32) -> Vec<u8> {
    let mut nv = RamNor::<UNITS, ERASE, 16, 0xFF, ONCE>::new();
    let all = 0..nv.capacity();
    let mut record = Record::open(&mut nv, all, value(0)).expect("room");
    for _ in 0..sets {
        record.set(value(0)).expect("room");
    }
    nv.bytes().to_vec()
}

#[test]
fn chains_on_used_flash() {
    let used = || Simulated::<OneSlot>::with_image(used::<3, 96, true>(4)).refusal_fails();
    chains(used, 5, 3, 2, 8);
    chains(used, 3, 2, 3, 400);
}

#[test]
fn chains_on_blank_flash() {
    chains(|| flash::<OneSlot>(3 * 96), 3, 3, 2, 16);
}

#[test]
fn chains_on_flash_with_overwrites() {
    let used = || Simulated::<TwoSlots>::with_image(used::<3, 192, false>(5)).refusal_fails();
    chains(used, 6, 4, 2, 8);
}

/// A record with the last sequence numbers before they wrap: a change has one or two of its own.
fn numbered<D: Medium>(nv: &mut D) {
    let all = 0..nv.capacity();
    let newest = |nv: &mut D| {
        let mut bytes = vec![0; nv.capacity() as usize];
        assert!(nv.read(0, &mut bytes).is_ok());
        let slots = bytes.windows(6).filter(|b| b.starts_with(b"RLR2"));
        slots
            .map(|b| u16::from_le_bytes([b[4], b[5]]))
            .max()
            .unwrap_or(0)
    };
    loop {
        let left = u16::MAX - newest(nv);
        if left < 5 {
            return;
        }
        let mut record = Record::open(&mut *nv, all.clone(), value(0)).expect("room");
        for _ in 0..(left / 2 - 1) {
            record.set(value(0)).expect("room");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "65,000 updates")]
fn numbers_wrap_on_fram() {
    fn last() -> Simulated<SpiFram> {
        static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut nv = RamFram::<96>::filled(0);
            numbered(&mut nv);
            nv.bytes().to_vec()
        });
        Simulated::with_image(IMAGE.clone())
    }
    scripts_on(last, scripts(12, false), 6);
}

#[test]
#[cfg_attr(miri, ignore = "65,000 updates")]
fn numbers_wrap_on_flash() {
    fn last() -> Simulated<Overwrites> {
        static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut nv = RamNor::<6, 256, 4, 0xFF, false>::new();
            numbered(&mut nv);
            nv.bytes().to_vec()
        });
        Simulated::with_image(IMAGE.clone()).refusal_fails()
    }
    scripts_on(last, scripts(14, false), 4);
}

/// Damage that no cut makes: a byte of a range changes while the power is off.
#[derive(Clone, Copy, Debug)]
struct Damage {
    /// How often the record was set; none: it was never opened.
    sets: Option<u8>,
    at: u16,
    byte: u8,
}

fn damages() -> impl Strategy<Value = Damage> {
    (
        prop::option::weighted(0.7, 0..4_u8),
        any::<u16>(),
        any::<u8>(),
    )
        .prop_map(|(sets, at, byte)| Damage { sets, at, byte })
}

/// A damaged range is refused and stays as it is; or its damage is where nothing counts, or is
/// taken for a torn write: then a value from before is found. A blank range with other content is
/// never formatted, except for the place of the format marker at its end.
fn damaged<D: Medium>(nv: &mut D, damage: Damage, change: fn(&mut D) -> &mut [u8]) {
    let all = 0..nv.capacity();
    if let Some(sets) = damage.sets {
        let mut record = Record::open(&mut *nv, all.clone(), value(0)).expect("room");
        for n in 1..=sets.into() {
            record.set(value(n)).expect("room");
        }
    }
    let half = change(nv).len() / 2;
    // A blank range: not at its end.
    let at = usize::from(damage.at)
        % if damage.sets.is_some() {
            2 * half
        } else {
            half
        };
    let before = change(nv)[at];
    change(nv)[at] = damage.byte;
    let image = change(nv).to_vec();
    let newest = u32::from(damage.sets.unwrap_or(0));
    let opened = Record::open(&mut *nv, all, value(99)).map(|record| *record.get());
    match opened {
        Ok(found) => {
            let n = found[0];
            assert_eq!(found, value(n), "a mixture");
            if damage.sets.is_none() {
                let blank = damage.byte == before;
                assert!(n == 99 && blank, "a range with other content was formatted");
            } else {
                let older = newest.saturating_sub(1)..=newest;
                assert!(older.contains(&n), "{n} of {newest}");
            }
        }
        Err(RecordError::Foreign | RecordError::Damaged | RecordError::Layout(_)) => {
            assert_ne!(damage.byte, before, "nothing is damaged");
            assert_eq!(change(nv), image, "nothing is written");
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn damaged_ranges() {
    cases(200, damages(), |damage| {
        damaged(&mut RamFram::<128>::filled(0), *damage, |nv| nv.bytes_mut());
        let mut nor = RamNor::<3, 96, 16, 0xFF>::new();
        damaged(&mut nor, *damage, |nv| nv.bytes_mut());
        let mut nor = RamNor::<3, 256, 4, 0xFF, false>::new();
        damaged(&mut nor, *damage, |nv| nv.bytes_mut());
    });
}
