//! Wear-levelled flash whose program goes on after errors and dropped futures.
//!
//! The judge: of each write that has not returned `Ok` any number of its pages may be there, the
//! first ones. What a read has found is never taken back.

use super::cases;
use super::media::{Overwrites, Words32, fault, flash};
use crate::faulty::{Control, Failed, Fault, Faulty, finish};
use crate::runs::{programs, seed};
use crate::support::Tiny;
use nvmem::asynch::WearLevelled as AsyncLevelled;
use nvmem::device::{AsyncMedium, Medium};
use nvmem::level::{LevelError, WearLevelled};
use nvmem::ram::RamNor;
use powerfail::{BufferedNor, Chip, Simulated, World, explore_with, random};
use proptest::prelude::*;
use std::fmt;
use std::rc::Rc;

/// Bytes of a page.
const PAGE: usize = 8;
/// Entries of the table in RAM, enough for each flash here.
const TABLE: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Fills some bytes.
    Write { at: u8, len: u8, fault: Fault },
    /// Reads all bytes, and counts damaged pages.
    Read(Fault),
    /// The flash is opened again, without a power cut.
    Open(Fault),
    /// The flash is opened without writing to it.
    OpenToRead(Fault),
    /// Deletes all content.
    Format(Fault),
}

#[derive(Clone, PartialEq)]
pub struct Script {
    /// The async form, whose futures are dropped.
    pub asynch: bool,
    pub ops: Vec<Op>,
}

/// As a test for found.rs.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Script { asynch, ops } = self;
        write!(
            f,
            "level::Script {{\n    asynch: {asynch},\n    ops: vec!{ops:?},\n}}"
        )
    }
}

pub fn scripts(most: usize) -> impl Strategy<Value = Script> {
    let len = prop_oneof![3 => 1..9_u8, 1 => 1..30_u8];
    let write =
        (any::<u8>(), len, fault()).prop_map(|(at, len, fault)| Op::Write { at, len, fault });
    let op = prop_oneof![
        16 => write,
        2 => fault().prop_map(Op::Read),
        4 => fault().prop_map(Op::Open),
        1 => fault().prop_map(Op::OpenToRead),
        1 => fault().prop_map(Op::Format),
    ];
    (any::<bool>(), prop::collection::vec(op, 2..=most))
        .prop_map(|(asynch, ops)| Script { asynch, ops })
}

/// Writes that meet no fault, and opens: what chains of cuts interrupt.
fn writes(n: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Script> {
    let write = (any::<u8>(), 1..20_u8).prop_map(|(at, len)| {
        let fault = Fault::None;
        Op::Write { at, len, fault }
    });
    let op = prop_oneof![7 => write, 1 => Just(Op::Open(Fault::None))];
    (any::<bool>(), prop::collection::vec(op, n)).prop_map(|(asynch, ops)| Script { asynch, ops })
}

/// What the world knows.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    /// Operations that were begun.
    at: u32,
    /// What the next read may find, each once. Nothing: the first open has not returned.
    possible: Vec<Vec<u8>>,
    /// A format was begun and has not returned: an open may refuse the flash, or find older
    /// content of pages.
    formatting: bool,
}

impl Seen {
    /// The bytes at `at` are being written.
    fn writes(&mut self, at: usize, bytes: &[u8]) {
        for before in self.possible.clone() {
            let mut after = before;
            let mut done = 0;
            while done < bytes.len() {
                let n = (PAGE - (at + done) % PAGE).min(bytes.len() - done);
                after[at + done..at + done + n].copy_from_slice(&bytes[done..done + n]);
                done += n;
                self.may_be(after.clone());
            }
        }
    }

    /// The write returned `Ok`.
    fn written(&mut self, at: usize, bytes: &[u8]) {
        for content in &mut self.possible {
            content[at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.possible.sort();
        self.possible.dedup();
    }

    fn may_be(&mut self, content: Vec<u8>) {
        if !self.possible.contains(&content) {
            self.possible.push(content);
        }
    }

    /// A read found this.
    #[track_caller]
    fn finds(&mut self, content: Vec<u8>) {
        if self.possible.is_empty() {
            self.may_be(vec![0; content.len()]);
        }
        assert!(
            self.formatting || self.possible.contains(&content),
            "{content:02x?} is read, and possible are {:02x?}",
            self.possible
        );
        self.possible = vec![content];
    }
}

/// What a call gives; `None` if its future was dropped.
type Done<T> = Option<Result<T, LevelError<Failed>>>;

/// Wear-levelled flash in one of its forms.
trait Form {
    type In<'m, D: Medium + 'm>;
    fn open<'m, D: Medium>(
        nv: &'m mut Faulty<D>,
        table: &'m mut [u16],
        fault: Fault,
    ) -> Done<Self::In<'m, D>>;
    fn open_to_read<'m, D: Medium>(
        nv: &'m mut Faulty<D>,
        table: &'m mut [u16],
        fault: Fault,
    ) -> Done<Self::In<'m, D>>;
    fn format<'m, D: Medium>(
        nv: &'m mut Faulty<D>,
        table: &'m mut [u16],
        fault: Fault,
    ) -> Done<Self::In<'m, D>>;
    fn write<'m, D: Medium + 'm>(
        d: &mut Self::In<'m, D>,
        at: u32,
        bytes: &[u8],
        fault: Fault,
    ) -> Done<()>;
    fn read<'m, D: Medium + 'm>(d: &mut Self::In<'m, D>, fault: Fault) -> Done<Vec<u8>>;
    fn capacity<'m, D: Medium + 'm>(d: &Self::In<'m, D>) -> usize;
}

fn at_once<T>(done: T, _: Fault) -> Option<T> {
    Some(done)
}

macro_rules! form {
    ($form:ident: $levelled:ident, $medium:ident, $finish:expr) => {
        enum $form {}
        impl Form for $form {
            type In<'m, D: Medium + 'm> = $levelled<'m, &'m mut Faulty<D>, PAGE>;

            fn open<'m, D: Medium>(
                nv: &'m mut Faulty<D>,
                table: &'m mut [u16],
                fault: Fault,
            ) -> Done<Self::In<'m, D>> {
                $finish($levelled::open(nv, table), fault)
            }
            fn open_to_read<'m, D: Medium>(
                nv: &'m mut Faulty<D>,
                table: &'m mut [u16],
                fault: Fault,
            ) -> Done<Self::In<'m, D>> {
                $finish($levelled::open_to_read(nv, table), fault)
            }
            fn format<'m, D: Medium>(
                nv: &'m mut Faulty<D>,
                table: &'m mut [u16],
                fault: Fault,
            ) -> Done<Self::In<'m, D>> {
                $finish($levelled::format(nv, table), fault)
            }
            fn write<'m, D: Medium + 'm>(
                d: &mut Self::In<'m, D>,
                at: u32,
                bytes: &[u8],
                fault: Fault,
            ) -> Done<()> {
                $finish($medium::write(d, at, bytes), fault)
            }
            fn read<'m, D: Medium + 'm>(d: &mut Self::In<'m, D>, fault: Fault) -> Done<Vec<u8>> {
                let mut all = vec![0xA5; Self::capacity::<D>(d)];
                let done = $finish($medium::read(d, 0, &mut all), fault)?;
                let counted = done.and_then(|()| $finish(d.damaged_pages(), Fault::None).unwrap());
                Some(counted.map(|damaged| {
                    assert_eq!(damaged, 0, "no cut damages a page");
                    all
                }))
            }
            fn capacity<'m, D: Medium + 'm>(d: &Self::In<'m, D>) -> usize {
                $medium::capacity(d) as usize
            }
        }
    };
}

form!(Blocking: WearLevelled, Medium, at_once);
form!(Async: AsyncLevelled, AsyncMedium, finish);

/// One boot of a script, from the operation after the one where the last boot was cut.
pub fn boot<D: Medium>(nv: D, world: &World<'_, Seen>, script: &Script) {
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
            op = Op::Format(Fault::None);
        }
        let next = match script.asynch {
            false => run.session::<Blocking, _>(&mut nv, op),
            true => run.session::<Async, _>(&mut nv, op),
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
            Err(LevelError::Medium(Failed)) if failed => None,
            Err(e) => panic!("{call}: {e}"),
        }
    }

    /// The same for an open, which may find what a format has left that was cut.
    #[track_caller]
    fn opened<T>(&self, call: &str, done: Done<T>) -> Result<T, Op> {
        if let Some(Err(LevelError::Foreign | LevelError::Damaged)) = done
            && self.world.with(|w| w.formatting)
        {
            return Err(Op::Format(Fault::None));
        }
        self.done(call, done).ok_or(Op::Open(Fault::None))
    }

    /// Makes an object as `op` says, and uses it. Returns the next operation that needs another
    /// one; `None` at the end of the script.
    fn session<F: Form, D: Medium>(&self, nv: &mut Faulty<D>, op: Op) -> Option<Op> {
        let world = self.world;
        let mut table = [0; TABLE];
        let made = match op {
            Op::Open(fault) => {
                self.control.meets(fault);
                self.opened("open", F::open(nv, &mut table, fault))
            }
            Op::OpenToRead(fault) => {
                self.control.meets(fault);
                let opened = self.opened("open_to_read", F::open_to_read(nv, &mut table, fault));
                let read_only = match opened {
                    Ok(read_only) => read_only,
                    Err(op) => return Some(op),
                };
                self.looks::<F, D>(read_only);
                assert_eq!((self.control.writes(), self.control.erases()), (0, 0));
                return Some(Op::Open(Fault::None));
            }
            Op::Format(fault) => {
                self.control.meets(fault);
                self.opened("format", F::format(nv, &mut table, fault))
            }
            Op::Write { .. } | Op::Read(_) => unreachable!("they need an object"),
        };
        let mut levelled = match made {
            Ok(levelled) => levelled,
            Err(op) => return Some(op),
        };
        self.reads::<F, D>(&mut levelled, Fault::None);
        world.update(|w| w.formatting = false);
        let capacity = F::capacity::<D>(&levelled);
        loop {
            let n = world.with(|w| w.at);
            let op = *self.script.ops.get(n as usize)?;
            match op {
                Op::Write { at, len, fault } => {
                    let at = usize::from(at) % capacity;
                    let bytes = vec![n as u8 + 1; usize::from(len).min(capacity - at)];
                    world.update(|w| {
                        w.at += 1;
                        w.writes(at, &bytes);
                    });
                    self.control.meets(fault);
                    let done = F::write::<D>(&mut levelled, at as u32, &bytes, fault);
                    if self.done("write", done).is_some() {
                        world.update(|w| w.written(at, &bytes));
                    }
                }
                Op::Read(fault) => {
                    world.update(|w| w.at += 1);
                    self.reads::<F, D>(&mut levelled, fault);
                }
                Op::Open(_) | Op::OpenToRead(_) => {
                    world.update(|w| w.at += 1);
                    return Some(op);
                }
                Op::Format(_) => {
                    world.update(|w| {
                        w.at += 1;
                        w.formatting = true;
                        w.may_be(vec![0; capacity]);
                    });
                    return Some(op);
                }
            }
        }
    }

    /// Reads all bytes. From here on they stay.
    fn reads<'m, F: Form, D: Medium + 'm>(&self, levelled: &mut F::In<'m, D>, fault: Fault) {
        self.control.meets(fault);
        if let Some(content) = self.done("read", F::read::<D>(levelled, fault)) {
            self.world.update(|w| w.finds(content));
        }
    }

    /// Reads all bytes of a flash that is not written. The next boot may find others.
    fn looks<'m, F: Form, D: Medium + 'm>(&self, mut levelled: F::In<'m, D>) {
        if let Some(content) = self.done("read", F::read::<D>(&mut levelled, Fault::None)) {
            let seen = self.world.get();
            let blank = seen.possible.is_empty() && content.iter().all(|b| *b == 0);
            let known = blank || seen.formatting || seen.possible.contains(&content);
            assert!(known, "{content:02x?}");
        }
    }
}

/// Scripts of up to so many operations on a flash, cut everywhere.
fn campaign<C: Chip>(media: fn() -> Simulated<C>, most: usize, cases: u32) {
    let s = random(scripts(most), media, |nv, w: &World<'_, Seen>, script| {
        boot(nv, w, script)
    })
    .cases(programs(cases))
    .seed(seed())
    .run();
    println!("{s}");
}

#[test]
fn one_slot_in_a_word() {
    campaign(|| flash::<Words32>(12 * 256), 24, 4);
}

#[test]
fn words() {
    campaign(|| flash::<Tiny>(7 * 128), 20, 3);
}

#[test]
fn overwrites() {
    campaign(|| flash::<Overwrites>(7 * 256), 20, 3);
}

#[test]
fn buffered() {
    campaign(|| flash::<BufferedNor>(7 * 128), 10, 1);
}

/// A flash that was in use for so many boots: nearly full, of zeros.
fn used<const ERASE: usize, const ONCE: bool>(writes: u32, boots: u32) -> Vec<u8> {
    let mut flash = RamNor::<7, ERASE, 4, 0xFF, ONCE>::new();
    let mut table = [0; TABLE];
    for n in 0..boots {
        let mut d = WearLevelled::<_, PAGE>::open(&mut flash, &mut table).expect("room");
        let pages = d.capacity() / PAGE as u32;
        for n in writes * n / boots..writes * (n + 1) / boots {
            // One page often, the others in turn.
            let page = if n % 4 == 1 { 0 } else { n % pages };
            d.write(page * PAGE as u32, &[0; PAGE]).expect("room");
        }
    }
    flash.bytes().to_vec()
}

/// Chains of cuts: one operation is cut, the next is completed, and one after it is cut. Of the
/// last cut's states one in so many is booted.
fn chains<C: Chip>(
    scripts: impl Strategy<Value = Script>,
    media: fn() -> Simulated<C>,
    n: u32,
    depth: u32,
    one_in: u32,
) {
    cases(n, scripts, |script| {
        let e = explore_with(
            script.clone(),
            media(),
            |nv, w: &World<'_, Seen>, script| boot(nv, w, script),
        );
        println!("{}", e.depth(depth).one_in(one_in).run());
    });
}

#[test]
fn chains_on_used_flash() {
    let full = || Simulated::<Tiny>::with_image(used::<128, true>(40, 1)).refusal_fails();
    chains(writes(3..=3), full, 1, 2, 48);
    let boots = || Simulated::<Tiny>::with_image(used::<128, true>(41, 10)).refusal_fails();
    chains(writes(3..=3), boots, 1, 2, 48);
}

#[test]
fn chains_on_flash_with_overwrites() {
    let few = || Simulated::<Overwrites>::with_image(used::<256, false>(9, 3)).refusal_fails();
    chains(scripts(4), few, 2, 2, 32);
    let full = || Simulated::<Overwrites>::with_image(used::<256, false>(80, 2)).refusal_fails();
    chains(writes(3..=3), full, 1, 2, 64);
}

#[test]
fn chains_on_used_flash_behind_a_buffer() {
    let full = || Simulated::<BufferedNor>::with_image(used::<128, true>(40, 1)).refusal_fails();
    chains(writes(3..=3), full, 2, 1, 1);
}

/// Writes of any pages wear all blocks alike, and leave what they have written.
#[test]
fn any_writes_wear_evenly() {
    let page = prop_oneof![2 => Just(0_u32), 1 => 0..7_u32];
    cases(
        6,
        prop::collection::vec((page, any::<u8>()), 300),
        |writes| {
            let mut flash = RamNor::<7, 128, 4>::new();
            let mut table = [0; TABLE];
            let mut d = WearLevelled::<_, PAGE>::open(&mut flash, &mut table).expect("room");
            let mut content = vec![0; d.capacity() as usize];
            for (page, byte) in writes {
                let at = *page as usize * PAGE % content.len();
                content[at..at + PAGE].fill(*byte);
                d.write(at as u32, &[*byte; PAGE]).expect("room");
            }
            let mut found = vec![0xA5; content.len()];
            d.read(0, &mut found).expect("a flash that works");
            assert_eq!(found, content);
            let wear = *flash.wear();
            let (least, most) = (wear.iter().min().unwrap(), wear.iter().max().unwrap());
            assert!(most - least <= 1, "{wear:?}");
        },
    );
}
