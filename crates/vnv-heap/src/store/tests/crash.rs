//! Every cut of every operation, and every cut of the boot after it.

use super::*;
use crate::OpenError;
use nvmem::ram::RamFram;
use nvmem::{Buffered32, InOrder16, InOrder32, Model};
use powerfail::{Mapped, Media, Simulated, SpiFram, World, explore_with};

/// Bytes of the media; some 30 units.
const SIZE: usize = 512;

/// Objects that there may be: how many in a row, and how long. The root, of 4 bytes, holds the
/// number of the last save and each one's id.
const SLOTS: [(u16, u16); 3] = [(1, 10), (1, 3), (2, 33)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Alloc(usize),
    Put(usize),
    Free(usize),
    /// An object that the root does not list.
    Orphan,
    Save,
    /// As after a cold boot.
    Reopen,
}
use Op::*;

/// Saves that the world knows of, and the operations begun since.
#[derive(Clone, Hash, Debug, Default)]
struct Promised {
    saved: u8,
    tried: u8,
    /// Something may have changed since the last save.
    changing: bool,
}

/// What each slot was filled with, as of save number `n`, and how many operations that takes.
fn model(script: &[Op], n: u8) -> ([Option<u8>; 3], usize) {
    let mut state = [None; 3];
    let mut saves = 0;
    for (i, op) in script.iter().enumerate() {
        if saves == n {
            return (state, i);
        }
        match *op {
            Alloc(slot) | Put(slot) => state[slot] = Some(i as u8),
            Free(slot) => state[slot] = None,
            Save => saves += 1,
            Orphan | Reopen => {}
        }
    }
    (state, script.len())
}

type Root = [u8; 4];

fn root_of<S: Medium, P: Promise>(s: &mut Store<S, P>) -> Root
where
    S::Error: Debug,
{
    s.get_all(1).unwrap().try_into().unwrap()
}

fn ids(root: Root) -> u32 {
    let mut bits = 0;
    for (id, (n, _)) in root[1..].iter().zip(SLOTS) {
        if *id != 0 {
            bits |= ((1 << n) - 1) << id;
        }
    }
    bits
}

struct Device<S: Medium, P> {
    store: Store<S, P>,
    root: Root,
}

impl<S: Medium, P: Promise> Device<S, P>
where
    S::Error: Debug,
{
    fn boot(mut medium: S, world: &World<'_, Promised>) -> Self
    where
        S: Medium,
    {
        let mut found = Store::<&mut S, P>::opened(&mut medium, &CONFIG, PRINT);
        if matches!(found, Err(OpenError::Interrupted)) {
            assert!(world.with(|p| p.changing), "interrupted by nothing");
            assert!(!P::SNAPSHOT);
            // The old content is given up before the medium is formatted.
            world.update(|p| (p.saved, p.tried) = (0, 0));
            let fresh = Store::formatted(&mut medium, &CONFIG, PRINT).unwrap();
            found = Ok((fresh, Opened::Blank));
        }
        let (mut s, opened) = found.unwrap();
        let mut root = Root::default();
        if opened == Opened::Blank {
            assert_eq!(world.with(|p| p.saved), 0, "a heap was lost");
            assert_eq!(s.alloc_all(1, 4).unwrap(), 1);
            s.put_all(1, &root).unwrap();
            save(&mut s);
            s.finish_format(PRINT).unwrap();
        } else {
            root = root_of(&mut s);
            let bits = ids(root);
            let reachable = |id: u16| id == 1 || bits >> id & 1 != 0;
            sweep(&mut s, reachable).unwrap();
            for id in (1..32).filter(|id| reachable(*id)) {
                s.image.locate(id).unwrap();
            }
        }
        let store = s.detach().attach(medium);
        Device { store, root }
    }

    /// The store holds the last save, or the one being made.
    fn check(&mut self, script: &[Op], world: &World<'_, Promised>) {
        let n = self.root[0];
        let p = world.get();
        assert!(n == p.saved || n == p.tried, "save {n} is there, {p:?}");
        world.set(Promised {
            saved: n,
            tried: n,
            changing: false,
        });
        let (state, _) = model(script, n);
        for (slot, filled) in state.into_iter().enumerate() {
            let id = self.root[1 + slot];
            assert_eq!(id != 0, filled.is_some(), "slot {slot} after save {n}");
            let Some(fill) = filled else { continue };
            let (run, len) = SLOTS[slot];
            for i in 0..run {
                let found = self.store.get_all(u16::from(id) + i).unwrap();
                let expected = std::vec![fill + i as u8; usize::from(len)];
                assert_eq!(found, expected, "slot {slot} after save {n}");
            }
        }
        if !P::SNAPSHOT && n > 0 {
            assert_eq!(self.store.pinned(), 1);
            assert_eq!(self.store.read_pin(0).unwrap().at, u16::from(n) * 0x101);
        }
        audit(&mut self.store, ids(self.root));
    }

    fn fill(&mut self, slot: usize, fill: u8) {
        let (run, len) = SLOTS[slot];
        for i in 0..run {
            let bytes = std::vec![fill + i as u8; usize::from(len)];
            let id = u16::from(self.root[1 + slot]) + i;
            self.store.put_all(id, &bytes).unwrap();
        }
    }

    fn run(mut self, script: &[Op], world: &World<'_, Promised>) {
        let (_, from) = model(script, self.root[0]);
        for (i, op) in script.iter().enumerate().skip(from) {
            world.update(|p| p.changing |= *op != Reopen);
            match *op {
                Alloc(slot) => {
                    let (n, len) = SLOTS[slot];
                    self.root[1 + slot] = self.store.alloc_all(n, len).unwrap() as u8;
                    self.fill(slot, i as u8);
                }
                Put(slot) => self.fill(slot, i as u8),
                Free(slot) => {
                    let id = u16::from(self.root[1 + slot]);
                    for i in (0..SLOTS[slot].0).rev() {
                        self.store.free_all(id + i).unwrap();
                    }
                    self.root[1 + slot] = 0;
                }
                Orphan => {
                    let id = self.store.alloc_all(1, 5).unwrap();
                    self.store.put_all(id, &[0xEE; 5]).unwrap();
                }
                Save => {
                    self.root[0] += 1;
                    let n = self.root[0];
                    self.store.put_all(1, &self.root).unwrap();
                    world.update(|p| p.tried = n);
                    if P::SNAPSHOT {
                        self.store.commit_all().unwrap();
                    } else {
                        let pin = Pin {
                            id: 1,
                            at: u16::from(n) * 0x101,
                            ..Pin::default()
                        };
                        self.store.write_pin(0, pin).unwrap();
                        self.store.set_persisted(1).unwrap();
                    }
                    world.set(Promised {
                        saved: n,
                        tried: n,
                        changing: false,
                    });
                }
                // This open would only say that it was interrupted.
                Reopen if !P::SNAPSHOT && world.with(|p| p.changing) => {}
                Reopen => {
                    let mut again =
                        Self::boot(self.store.replace(RamFram::<1>::filled(0)).0, world);
                    again.check(script, world);
                    self = again;
                }
            }
        }
        // The root holds the number of all saves.
        let saves = script.iter().filter(|o| **o == Save).count();
        assert_eq!(usize::from(self.root[0]), saves);
    }
}

/// The state of a store without its medium, to give it another borrow of the medium.
impl<S: Medium, P> Store<S, P> {
    fn detach(self) -> Store<RamFram<1>, P> {
        self.replace(RamFram::filled(0)).1
    }

    fn attach<T: Medium>(self, medium: T) -> Store<T, P> {
        self.replace(medium).1
    }

    fn replace<T: Medium>(self, medium: T) -> (S, Store<T, P>) {
        let (old, image) = self.image.replace(medium);
        let new = Store {
            image,
            seq: self.seq,
            pinned: self.pinned,
            burst: self.burst,
            free_units: self.free_units,
            free_ids: self.free_ids,
            next_unit: self.next_unit,
            next_id: self.next_id,
            chain: self.chain,
            state: self.state,
            damaged: self.damaged,
        };
        (old, new)
    }
}

fn life<S: Medium, P: Promise>(nv: S, world: &World<'_, Promised>, script: &[Op])
where
    S::Error: Debug,
{
    let mut d = Device::<S, P>::boot(nv, world);
    d.check(script, world);
    d.run(script, world);
}

/// An image on which `script` has run to its end, with record numbers that begin at `seq`.
fn image<P: Promise>(script: &[Op], seq: u32) -> Vec<u8> {
    let mut fram = RamFram::<SIZE>::filled(0);
    let mut s = Store::<_, P>::opened(&mut fram, &CONFIG, PRINT).unwrap().0;
    s.alloc_all(1, 4).unwrap();
    s.put_all(1, &[0; 4]).unwrap();
    save(&mut s);
    s.finish_format(PRINT).unwrap();
    // Both records, so that they are neighbours again.
    for back in [2, 1] {
        s.seq = seq.wrapping_sub(back);
        s.put_all(1, &[0; 4]).unwrap();
        save(&mut s);
    }
    assert!(script.is_empty());
    fram.bytes().to_vec()
}

/// Each on its own, so that what is explored at depth 2 stays small; and some together.
const SCRIPTS: [&[Op]; 8] = [
    &[],
    &[Alloc(0), Save, Put(0), Put(0), Save],
    &[Alloc(2), Save, Free(2), Save],
    &[Alloc(1), Free(1), Alloc(0), Alloc(1), Save, Reopen],
    &[Alloc(0), Orphan, Save, Reopen, Put(0), Save],
    &[
        Alloc(0),
        Alloc(1),
        Save,
        Put(1),
        Free(1),
        Alloc(2),
        Free(0),
        Save,
    ],
    &[
        Alloc(0),
        Save,
        Free(0),
        Alloc(0),
        Put(0),
        Free(0),
        Alloc(1),
        Save,
    ],
    &[
        Orphan,
        Alloc(0),
        Free(0),
        Save,
        Orphan,
        Reopen,
        Alloc(0),
        Save,
    ],
];

/// One script in `n` makes two cuts in each run, which `POWERFAIL_SAMPLE` chooses, and the others
/// one. In long runs all make two.
fn depth(i: usize, n: usize) -> u32 {
    let seed = std::env::var("POWERFAIL_SAMPLE").unwrap_or("0".into());
    let chosen = |seed: usize| seed % n == i % n;
    match seed == "all" || chosen(seed.parse().expect("a number or `all`")) {
        true if i != 1 => 2,
        _ => 1,
    }
}

fn all<M, P>(medium: fn(Vec<u8>) -> M, limit: usize, turns: usize)
where
    M: Media,
    P: Promise,
    for<'r> M::Nv<'r>: Medium<Error: Debug>,
{
    let mut cuts = 0;
    for (i, script) in SCRIPTS.into_iter().enumerate() {
        let first = match i {
            // Formats, too.
            0 => std::vec![0; SIZE],
            1 => std::vec![0xFF; SIZE],
            // Numbers that wrap.
            2 => image::<P>(&[], 0),
            3 => image::<P>(&[], 0x8000_0000),
            4 => image::<P>(&[], 0x100),
            _ => image::<P>(&[], 7),
        };
        let name = std::format!("store_{i}_{}", core::any::type_name::<(M, P)>());
        let s = explore_with(script, medium(first), |nv, world, script: &&[Op]| {
            life::<_, P>(nv, world, script)
        })
        .name(&name)
        .depth(depth(i, turns))
        .max_depth(2)
        .limit(limit)
        .run();
        std::println!("{i}: {s}");
        assert!(s.partial || s.cuts > 30, "{s}");
        cuts += s.cuts;
    }
    std::println!("{cuts} cuts");
}

#[test]
fn just_in_time_bytes() {
    all::<_, JustInTime>(Simulated::<SpiFram>::with_image, 1, 1);
}

#[test]
fn snapshot_bytes() {
    all::<_, Snapshot>(Simulated::<SpiFram>::with_image, 1, 1);
}

fn mapped<M: Model, P: Promise>() {
    // Of what a buffer may leave, some: between two fences there are dozens of stores.
    all::<_, P>(Mapped::<M>::with_image, 4, if M::BUFFERED { 3 } else { 1 });
}

#[test]
fn just_in_time_mapped_16() {
    mapped::<InOrder16, JustInTime>();
}

#[test]
fn snapshot_mapped_16() {
    mapped::<InOrder16, Snapshot>();
}

#[test]
fn just_in_time_mapped_32() {
    mapped::<InOrder32, JustInTime>();
}

#[test]
fn snapshot_mapped_32() {
    mapped::<InOrder32, Snapshot>();
}

#[test]
fn just_in_time_buffered() {
    mapped::<Buffered32, JustInTime>();
}

#[test]
fn snapshot_buffered() {
    mapped::<Buffered32, Snapshot>();
}
