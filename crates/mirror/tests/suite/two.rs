//! Two mirrors on one range: the program has opened it twice. None of them loses what the other has
//! saved, and the one that is refused stores nothing.
//!
//! The model is the content that the last save that returned `Ok` has saved, and of what was tried
//! since then. It knows no format.

use crate::crash::media::{Bytes4, Bytes32, HalfPages};
use crate::support::Failed;
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Mirror, MirrorError};
use nvmem::device::{Contract, Medium, Misuse};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{Buffered32, Ram, Region};
use powerfail::{BufferedNor, Mapped, Mram16, Simulated, SpiFram, World, explore};

pub const WORDS: usize = 8;
pub type Content = [u32; WORDS];
/// Image and shadow.
pub type Memory = [MaybeUninit<u64>; WORDS];
pub const MEMORY: Memory = [MaybeUninit::new(0); WORDS];

/// What an operation that fails has done all the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Done {
    Nothing,
    Half,
    All,
}

/// How many operations come before the one that fails, and what that one does.
pub type Fault = Cell<Option<(u32, Done)>>;
pub type Failure = MirrorError<Failed>;

/// A part that two drivers reach.
pub struct Shared<'a, D> {
    pub part: &'a RefCell<D>,
    pub fault: &'a Fault,
}

impl<D: Medium> Shared<'_, D> {
    fn operation(
        &self,
        len: usize,
        size: u32,
        f: impl FnOnce(&mut D, usize) -> Result<(), D::Error>,
    ) -> Result<(), Failed> {
        let part = &mut *self.part.borrow_mut();
        let fault = self.fault.get();
        self.fault.set(fault.map(|(n, d)| (n.wrapping_sub(1), d)));
        let (some, ended) = match fault {
            Some((0, Done::Nothing)) => return Err(Failed),
            Some((0, Done::Half)) => (len / 2 / size as usize * size as usize, Err(Failed)),
            Some((0, Done::All)) => (len, Err(Failed)),
            _ => (len, Ok(())),
        };
        // Flash that the save of the other mirror has left written, where it failed.
        f(part, some).map_err(|_| Failed)?;
        ended
    }
}

impl<D: Medium> Medium for Shared<'_, D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.part.borrow().capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        self.operation(buf.len(), D::CONTRACT.read_size, |part, n| {
            part.read(at, &mut buf[..n])
        })
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        self.operation(bytes.len(), D::CONTRACT.write_size, |part, n| {
            part.write(at, &bytes[..n])
        })
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        let size = D::CONTRACT.erase_size();
        self.operation((to - from) as usize, size, |part, n| {
            part.erase(from, from + n as u32)
        })
    }
    fn flush(&mut self) -> Result<(), Failed> {
        self.operation(1, 1, |part, n| if n > 0 { part.flush() } else { Ok(()) })
    }
}

pub fn read(region: &Region<'_, Ram>) -> Content {
    // SAFETY: invariant "Inside the region": words of the region, which are initialised.
    core::array::from_fn(|i| unsafe { region.load(i * 4) })
}

fn write(region: &mut Region<'_, Ram>, content: &Content) {
    for (i, w) in content.iter().enumerate() {
        // SAFETY: invariant "Inside the region": a word of the region, and no reference to it
        // exists.
        unsafe { region.store(i * 4, *w) }
    }
}

/// One more commit of this mirror: its count, and words that make the record longer.
pub fn commit(region: &mut Region<'_, Ram>, who: usize) {
    commit_as(region, who, 0)
}

/// The same, with this number in the content.
pub fn commit_as(region: &mut Region<'_, Ram>, who: usize, number: u32) {
    let mut content = read(region);
    content[3] = number;
    content[who] += 1;
    for i in 4..WORDS {
        content[i] = content[who] * 16 + i as u32;
    }
    write(region, &content);
}

pub type One<'m, 'a, D> = (Mirror<'m, Shared<'a, D>>, Region<'m, Ram>);

fn open<'m, 'a, D: Medium>(
    part: &'a RefCell<D>,
    fault: &'a Fault,
    segments: u8,
    memory: &'m mut Memory,
) -> One<'m, 'a, D> {
    try_open(part, fault, segments, memory).expect("no cut, and no failure")
}

pub fn try_open<'m, 'a, D: Medium>(
    part: &'a RefCell<D>,
    fault: &'a Fault,
    segments: u8,
    memory: &'m mut Memory,
) -> Result<One<'m, 'a, D>, Failure> {
    let shared = Shared { part, fault };
    let all = 0..shared.capacity();
    Mirror::open(shared, all, &config(segments), memory)
}

pub fn config(segments: u8) -> Config {
    Config {
        segments,
        ..Config::DEFAULT
    }
}

/// What an open finds. `None`: it refuses the range, as it may before the first save of all.
fn found<D: Medium + Clone>(part: &RefCell<D>, segments: u8) -> Option<Content> {
    let copy = RefCell::new(part.borrow().clone());
    let (fault, mut memory) = (Cell::new(None), MEMORY);
    let opened = try_open(&copy, &fault, segments, &mut memory);
    opened.ok().map(|(_, region)| read(&region))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// A commit, and a save.
    Save,
    /// Some of them: the other mirror's segments are written again.
    Saves,
    /// A commit, and a save in which an operation of the part fails.
    Fails(u32, Done),
    /// A commit, a save, and room for one more.
    MakeRoom,
    Reopen,
}

impl Op {
    pub fn times(self) -> u32 {
        if self == Op::Saves { 5 } else { 1 }
    }
}

/// What a mirror may do in the model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    /// The other one has changed the part since this one's open.
    pub touched: bool,
    /// The other one has saved since this one's open.
    pub overtaken: bool,
    pub refused: bool,
}

/// Runs these operations of the two mirrors, after `warm` saves of one that is alone.
fn run<D: Medium + Clone>(
    blank: &D,
    bytes: fn(&D) -> Vec<u8>,
    segments: u8,
    warm: u32,
    ops: &[(usize, Op)],
) -> u32 {
    let (part, fault) = (RefCell::new(blank.clone()), Cell::new(None));
    let mut memories = [MEMORY; 16];
    let mut memories = memories.iter_mut();
    let mut next = || open(&part, &fault, segments, memories.next().unwrap());
    let mut alone = next();
    for _ in 0..warm {
        commit(&mut alone.1, 2);
        alone.0.durable(&mut alone.1).unwrap();
    }
    let mut saved = read(&alone.1);
    let mut tried: Vec<Content> = Vec::new();
    let mut both = [next(), next()];
    let mut marks = [Mark::default(); 2];
    let mut refusals = 0;
    let mut has_failed = false;
    // No two saves have the same content.
    let mut commits = warm;
    for (who, op) in ops.iter().copied() {
        if op == Op::Reopen {
            both[who] = next();
            marks[who] = Mark::default();
            let content = read(&both[who].1);
            assert!(content == saved || tried.contains(&content), "{ops:?}");
            continue;
        }
        for _ in 0..op.times() {
            let (mirror, region) = &mut both[who];
            commits += 1;
            commit_as(region, who, commits);
            let content = read(region);
            let before = bytes(&part.borrow());
            if let Op::Fails(n, done) = op {
                fault.set(Some((n, done)));
            }
            let ended = match op {
                Op::MakeRoom => mirror.make_room(region),
                _ => mirror.durable(region),
            };
            let failed = fault.take().is_some_and(|(n, _)| n > u32::MAX / 2);
            let changed = bytes(&part.borrow()) != before;
            let may_fail = failed || has_failed && D::CONTRACT.erase.is_some();
            has_failed |= failed;
            match ended {
                Ok(()) => {
                    assert!(!failed && !marks[who].refused, "{ops:?}");
                    assert!(!marks[who].overtaken, "a save is lost: {warm}, {ops:?}");
                    for i in 0..3 {
                        assert!(content[i] >= saved[i], "a save is lost: {ops:?}");
                    }
                    (saved, tried) = (content, Vec::new());
                    marks[1 - who].overtaken = true;
                    marks[1 - who].touched = true;
                }
                Err(MirrorError::OtherMirror) => {
                    assert!(marks[who].touched, "a false alarm: {ops:?}");
                    assert!(!changed, "it has stored something: {ops:?}");
                    marks[who].refused = true;
                    refusals += 1;
                }
                Err(error) => {
                    assert!(may_fail && !marks[who].refused, "{error:?}: {ops:?}");
                    tried.push(content);
                    marks[1 - who].touched |= changed;
                }
            }
            let Some(content) = found(&part, segments) else {
                let flash = D::CONTRACT.erase.is_some();
                assert!(flash && saved == [0; WORDS], "a save is lost: {ops:?}");
                return refusals;
            };
            let expected = content == saved || tried.contains(&content);
            assert!(expected, "a save is lost: {ops:?}");
        }
    }
    refusals
}

/// All sequences of so many of these operations.
fn sequences(ops: &[Op], len: usize) -> impl Iterator<Item = Vec<(usize, Op)>> {
    let all: Vec<(usize, Op)> = (0..2)
        .flat_map(|w| ops.iter().map(move |o| (w, *o)))
        .collect();
    let n = all.len();
    (0..n.pow(len as u32)).map(move |mut i| {
        let nth = |_| {
            let op = all[i % n];
            i /= n;
            op
        };
        (0..len).map(nth).collect()
    })
}

/// In all orders, without and with failures at each operation of the part.
fn all_orders<D: Medium + Clone>(blank: D, bytes: fn(&D) -> Vec<u8>, segments: u8) {
    let mut refusals = 0;
    for warm in [0, 1, 2, 7] {
        for ops in sequences(&[Op::Save, Op::Saves, Op::MakeRoom, Op::Reopen], 4) {
            refusals += run(&blank, bytes, segments, warm, &ops);
        }
        for ops in sequences(&[Op::Save, Op::Reopen], 7) {
            refusals += run(&blank, bytes, segments, warm, &ops);
        }
        if ![2, 7].contains(&warm) {
            continue;
        }
        for n in 0..16 {
            for done in [Done::Nothing, Done::Half, Done::All] {
                let fails = Op::Fails(n, done);
                for ops in sequences(&[Op::Save, fails, Op::Reopen], 4) {
                    // The others begin with what the first case has had.
                    if ops.iter().any(|(_, op)| *op == fails) {
                        refusals += run(&blank, bytes, segments, warm, &ops);
                    }
                }
            }
        }
    }
    assert!(refusals > 1000, "{refusals}");
}

#[test]
#[cfg_attr(miri, ignore = "a million saves")]
fn all_orders_on_fram() {
    // One record in a segment, and several.
    all_orders(RamFram::<240>::filled(0), |nv| nv.bytes().to_vec(), 2);
    all_orders(
        RamFram::<{ 4 * 200 }>::filled(0xFF),
        |nv| nv.bytes().to_vec(),
        4,
    );
}

#[test]
#[cfg_attr(miri, ignore = "a million saves")]
fn all_orders_on_mram() {
    all_orders(
        RamMram::<{ 3 * 144 }>::filled(0),
        |nv| nv.bytes().to_vec(),
        3,
    );
}

#[test]
#[cfg_attr(miri, ignore = "a million saves")]
fn all_orders_on_flash_by_4_bytes() {
    all_orders(RamNor::<3, 160, 4>::new(), |nv| nv.bytes().to_vec(), 3);
    all_orders(
        RamNor::<4, 160, 4, 0xFF, false>::new(),
        |nv| nv.bytes().to_vec(),
        4,
    );
}

#[test]
#[cfg_attr(miri, ignore = "a million saves")]
fn all_orders_on_flash_of_large_words() {
    all_orders(RamNor::<3, 288, 32>::new(), |nv| nv.bytes().to_vec(), 3);
    all_orders(
        RamNor::<3, 1536, 256, 0x00>::new(),
        |nv| nv.bytes().to_vec(),
        3,
    );
}

/// A driver with a write buffer, which drains at a flush. Both mirrors use it.
#[derive(Clone)]
struct Buffer<D> {
    part: D,
    writes: Vec<(u32, Vec<u8>)>,
}

impl<D: Medium<Error = Misuse> + Clone> Buffer<D> {
    /// What a mirror reads.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.part.capacity() as usize];
        self.clone().read(0, &mut bytes).unwrap();
        bytes
    }
}

impl<D: Medium<Error = Misuse>> Medium for Buffer<D> {
    type Error = Misuse;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.part.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.part.read(at, buf)?;
        for (from, bytes) in &self.writes {
            for (i, b) in (*from..).zip(bytes) {
                if (at..at + buf.len() as u32).contains(&i) {
                    buf[(i - at) as usize] = *b;
                }
            }
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.writes.push((at, bytes.to_vec()));
        Ok(())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.flush()?;
        self.part.erase(from, to)
    }
    fn flush(&mut self) -> Result<(), Misuse> {
        for (at, bytes) in self.writes.drain(..) {
            self.part.write(at, &bytes)?;
        }
        Ok(())
    }
}

#[test]
#[cfg_attr(miri, ignore = "a million saves")]
fn all_orders_behind_a_buffer() {
    fn buffer<D>(part: D) -> Buffer<D> {
        let writes = Vec::new();
        Buffer { part, writes }
    }
    all_orders(buffer(RamFram::<320>::filled(0)), Buffer::bytes, 2);
    all_orders(buffer(RamNor::<3, 160, 4>::new()), Buffer::bytes, 3);
}

/// A refusal stays, also if the part is again as this mirror has left it, and if nothing is to be
/// saved.
#[test]
fn a_refused_mirror_stays_refused() {
    let part = RefCell::new(RamFram::<320>::filled(0));
    let fault = Cell::new(None);
    let [mut one, mut two] = [MEMORY; 2];
    let (mut a, mut at_a) = open(&part, &fault, 2, &mut one);
    commit(&mut at_a, 0);
    a.durable(&mut at_a).unwrap();
    let before = part.borrow().clone();
    let (mut b, mut at_b) = open(&part, &fault, 2, &mut two);
    commit(&mut at_b, 1);
    b.durable(&mut at_b).unwrap();
    commit(&mut at_a, 0);
    let refused = Err(MirrorError::OtherMirror);
    assert_eq!(a.durable(&mut at_a), refused);
    *part.borrow_mut() = before;
    assert_eq!(a.durable(&mut at_a), refused);
    assert_eq!(a.make_room(&mut at_a), refused);
    assert_eq!(a.room(), 0);
}

/// A format by the other mirror is noticed, too.
#[test]
fn a_format_is_noticed() {
    fn formats<D: Medium + Clone>(blank: D, segments: u8) {
        for saves in 0..6 {
            let (part, fault) = (RefCell::new(blank.clone()), Cell::new(None));
            let [mut one, mut two] = [MEMORY; 2];
            let (mut a, mut region) = open(&part, &fault, segments, &mut one);
            for _ in 0..saves {
                commit(&mut region, 0);
                a.durable(&mut region).unwrap();
            }
            let all = 0..part.borrow().capacity();
            let shared = Shared {
                part: &part,
                fault: &fault,
            };
            let formatted = Mirror::format::<Ram>(shared, all, &config(segments), &mut two);
            assert!(formatted.is_ok());
            commit(&mut region, 0);
            assert_eq!(a.durable(&mut region), Err(MirrorError::OtherMirror));
            assert_eq!(found(&part, segments), Some([0; WORDS]));
        }
    }
    formats(RamFram::<320>::filled(0), 2);
    formats(RamNor::<3, 160, 4>::new(), 3);
    formats(RamNor::<3, 288, 32>::new(), 3);
}

/// A format by the other mirror fails at any operation. Then this one saves, or is refused.
#[test]
fn a_format_that_failed_is_noticed() {
    fn formats<D: Medium + Clone>(blank: D, segments: u8) {
        let (mut saved, mut refused) = (0, 0);
        for (saves, n) in (1..30).flat_map(|saves| (0..24).map(move |n| (saves, n))) {
            let (part, fault) = (RefCell::new(blank.clone()), Cell::new(None));
            let [mut one, mut two] = [MEMORY; 2];
            let (mut a, mut region) = open(&part, &fault, segments, &mut one);
            for _ in 0..saves {
                commit(&mut region, 0);
                a.durable(&mut region).unwrap();
            }
            let all = 0..part.borrow().capacity();
            let shared = Shared {
                part: &part,
                fault: &fault,
            };
            fault.set(Some((n, Done::All)));
            let _ = Mirror::format::<Ram>(shared, all, &config(segments), &mut two);
            fault.set(None);
            commit(&mut region, 0);
            match a.durable(&mut region) {
                Ok(()) => {
                    assert_eq!(found(&part, segments), Some(read(&region)), "{n}");
                    saved += 1;
                }
                ended => {
                    assert_eq!(ended, Err(MirrorError::OtherMirror), "{n}");
                    refused += 1;
                }
            }
        }
        assert!(saved > 0 && refused > 0, "{saved} and {refused}");
    }
    formats(RamFram::<{ 2 * 2400 }>::filled(0), 2);
    formats(RamMram::<{ 3 * 2400 }>::filled(0), 3);
    formats(RamNor::<3, 320, 4>::new(), 3);
    formats(RamNor::<3, 288, 32>::new(), 3);
}

/// After a format the numbers of segments begin anew: a mirror that has opened the first one before
/// does not take another first one for it.
#[test]
fn a_first_segment_after_a_format_is_noticed() {
    fn formats<D: Medium + Clone>(blank: D, segments: u8) {
        let (part, fault) = (RefCell::new(blank), Cell::new(None));
        let [mut one, mut two] = [MEMORY; 2];
        let (mut a, mut region) = open(&part, &fault, segments, &mut one);
        commit(&mut region, 0);
        a.durable(&mut region).unwrap();
        let shared = Shared {
            part: &part,
            fault: &fault,
        };
        let all = 0..part.borrow().capacity();
        let formatted = Mirror::format(shared, all, &config(segments), &mut two);
        let (mut b, mut at_b) = formatted.ok().unwrap();
        commit(&mut at_b, 1);
        b.durable(&mut at_b).unwrap();
        commit(&mut region, 0);
        assert_eq!(a.durable(&mut region), Err(MirrorError::OtherMirror));
        assert_eq!(found(&part, segments), Some(read(&at_b)));
    }
    formats(RamFram::<320>::filled(0), 2);
    formats(RamNor::<3, 160, 4>::new(), 3);
    formats(RamNor::<3, 288, 32>::new(), 3);
}

/// A first save fails, and has stored all or some of it. The other mirror opens the range then. The
/// next save is the first, too, and has the same number.
#[test]
fn a_first_segment_that_is_begun_again_is_noticed() {
    fn orders<D: Medium + Clone>(blank: D, bytes: fn(&D) -> Vec<u8>, segments: u8) {
        for n in 0..20 {
            for done in [Done::Nothing, Done::Half, Done::All] {
                for ops in sequences(&[Op::Save, Op::Reopen], 4) {
                    let ops = [&[(0, Op::Fails(n, done))], &ops[..]].concat();
                    run(&blank, bytes, segments, 0, &ops);
                }
            }
        }
    }
    orders(RamFram::<320>::filled(0), |nv| nv.bytes().to_vec(), 2);
    orders(
        RamMram::<{ 3 * 144 }>::filled(0),
        |nv| nv.bytes().to_vec(),
        3,
    );
    orders(RamNor::<3, 160, 4>::new(), |nv| nv.bytes().to_vec(), 3);
    orders(RamNor::<3, 288, 32>::new(), |nv| nv.bytes().to_vec(), 3);
}

/// What a mirror alone on flash says to its first save. A save of an earlier boot was cut, and
/// another cut came while the next boot erased that. This one reads it as blank when it opens the
/// range, and as written when it saves. `None`: the earlier save was not cut.
fn reads_again<D: Medium + Clone>(
    blank: &D,
    cut: (u32, Done),
) -> Option<Result<(), MirrorError<Failed>>> {
    let (part, fault) = (RefCell::new(blank.clone()), Cell::new(None));
    let mut memories = [MEMORY; 3];
    let [one, two, three] = &mut memories;
    let (mut first, mut region) = open(&part, &fault, 3, one);
    commit(&mut region, 0);
    first.durable(&mut region).unwrap();
    let erased = part.borrow().clone();
    let (mut second, mut region) = open(&part, &fault, 3, two);
    commit(&mut region, 0);
    fault.set(Some(cut));
    second.durable(&mut region).err()?;
    fault.set(None);
    let written = part.replace(erased);
    let (mut third, mut region) = open(&part, &fault, 3, three);
    part.replace(written);
    commit(&mut region, 0);
    Some(third.durable(&mut region))
}

// Found by generated programs, as POWERFAIL=
// 'generated::deep_flash_128@small-flash@99aeaebb@0xc80#1=ha65cfa64/0xc00#1=hf6b077c9^0!2'
#[test]
fn what_a_cut_has_left_is_no_other_mirror() {
    fn check<D: Medium + Clone>(blank: D) {
        let is_cut = |n: &u32| reads_again(&blank, (*n, Done::All)).is_some();
        let operations = (0..).take_while(is_cut).count() as u32;
        assert!(operations > 5);
        for n in 0..operations {
            for done in [Done::Nothing, Done::Half, Done::All] {
                // The last two operations are the write of the confirmation, and its flush.
                let is_confirmed = n + 1 == operations || n + 2 == operations && done == Done::All;
                let said = match is_confirmed {
                    true => Err(MirrorError::OtherMirror),
                    false => Ok(()),
                };
                assert_eq!(reads_again(&blank, (n, done)), Some(said), "{n}, {done:?}");
            }
        }
    }
    check(RamNor::<3, 160, 4>::new());
    check(RamNor::<3, 288, 32>::new());
}

/// What a boot may find.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    pub boots: u32,
    pub saved: Content,
    pub tried: Vec<Content>,
    /// A format was begun and has not ended: an open may refuse the range.
    pub formatting: bool,
}

/// One boot: both mirrors open the range, save in turn, are refused, and open it again.
fn boot<D: Medium>(nv: D, world: &World<'_, Seen>, segments: u8) {
    let (part, fault) = (RefCell::new(nv), Cell::new(None));
    let mut memories = [MEMORY; 5];
    let mut memories = memories.iter_mut();
    let mut next = || open(&part, &fault, segments, memories.next().unwrap());
    let seen = world.get();
    let check = |region: &Region<'_, Ram>| {
        let content = read(region);
        let seen = world.get();
        assert!(
            content == seen.saved || seen.tried.contains(&content),
            "a save is lost"
        );
    };
    let save = |(mirror, region): &mut One<'_, '_, D>, who: usize| {
        commit(region, who);
        let content = read(region);
        world.update(|seen| seen.tried.push(content));
        let ended = mirror.durable(region);
        if ended.is_ok() {
            world.update(|seen| (seen.saved, seen.tried) = (content, Vec::new()));
        } else {
            world.update(|seen| seen.tried.truncate(seen.tried.len() - 1));
        }
        ended
    };
    let refused = Err(MirrorError::OtherMirror);
    let mut a = next();
    check(&a.1);
    if seen.saved[0] > 2 {
        return;
    }
    world.update(|seen| seen.boots += 1);
    // On flash two mirrors may read differently what a cut has left, until one of them saves.
    let mut b = (D::CONTRACT.erase.is_none() || seen.boots == 0).then(&mut next);
    assert_eq!(save(&mut a, 0), Ok(()), "a false alarm");
    if let Some(b) = &mut b {
        assert_eq!(save(b, 1), refused);
    }
    let mut b = next();
    assert_eq!(read(&b.1), read(&a.1));
    assert_eq!(save(&mut a, 0), Ok(()), "a false alarm");
    assert_eq!(save(&mut b, 1), refused);
    let mut b = next();
    check(&b.1);
    assert_eq!(save(&mut b, 1), Ok(()), "a false alarm");
    assert_eq!(save(&mut b, 1), Ok(()), "a false alarm");
    assert_eq!(save(&mut a, 0), refused);
    assert_eq!(save(&mut a, 0), refused);
    let mut a = next();
    check(&a.1);
    assert_eq!(save(&mut a, 0), Ok(()), "a false alarm");
    assert_eq!(save(&mut b, 1), refused);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn two_mirrors_and_power_cuts() {
    macro_rules! cuts {
        ($media:expr, $segments:literal, depth $depth:literal, $least:literal) => {
            let s = explore($media, |nv, w| boot(nv, w, $segments))
                .world(Seen::default())
                .depth($depth)
                .max_depth($depth)
                .run();
            println!("{}: {s}", stringify!($media));
            assert!(s.partial || s.cuts > $least, "{s}");
        };
    }
    cuts!(Simulated::<SpiFram>::new(320), 2, depth 1, 100);
    cuts!(Simulated::<Mram16>::new(3 * 160), 3, depth 2, 100);
    cuts!(Mapped::<Buffered32>::with_image(vec![0; 320]), 2, depth 1, 50);
    cuts!(Simulated::<Bytes4>::new(3 * 1024), 3, depth 1, 100);
    cuts!(Simulated::<BufferedNor>::new(3 * 1024), 3, depth 1, 50);
    cuts!(Simulated::<Bytes32>::new(3 * 1024), 3, depth 2, 100);
    cuts!(Simulated::<HalfPages>::new(3 * 1536), 3, depth 2, 100);
}
