//! What the region holds: words, or a pool of words and objects. Both show it as a [`State`].

use core::fmt;
use nvmem::at_rest::{AtRest, RestingRegion};
use nvmem::{Persist, Ram, Region};
use pmem_tx::{PBox, Pool};

/// Words of the content.
pub const WORDS: usize = 124;
/// Objects of a pool.
pub const OBJECTS: usize = 3;
/// `u64`s of the image of a pool.
pub const MOST_WORDS: usize = 220;

/// The content, as the model and the device both know it.
#[derive(Clone, Hash, PartialEq, Eq)]
pub struct State {
    pub words: Vec<u32>,
    pub objects: [Option<u32>; OBJECTS],
}

impl Default for State {
    fn default() -> Self {
        State {
            words: vec![0; WORDS],
            objects: [None; OBJECTS],
        }
    }
}

/// The words that are not 0.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words.iter().enumerate().filter(|(_, w)| **w != 0);
        f.debug_map().entries(words).finish()?;
        write!(f, " and objects {:?}", self.objects)
    }
}

pub trait Store<'m>: AtRest + Sized {
    /// `u64`s of the image.
    const WORDS: usize;
    const HAS_OBJECTS: bool;
    fn open(region: Region<'m, Ram>) -> Self;
    fn read(&mut self) -> State;
    /// Brings what differs.
    fn change(&mut self, from: &State, to: &State);
    /// The owner for a save during which this store changes, if it can.
    fn shared(&mut self) -> Option<Shared>;
}

/// An owner of a region that another task changes while a save waits.
pub struct Shared(RestingRegion);

// SAFETY: nothing is under way in the region whenever a save looks at it: stores come between two
// polls.
unsafe impl AtRest for Shared {
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        f(RestingRegion {
            base: self.0.base,
            len: self.0.len,
            scratch: 0..0,
        })
    }
}

/// A store for any lifetime of the region.
pub trait Kind: 'static {
    type At<'m>: Store<'m>;
}
impl Kind for Raw<'static> {
    type At<'m> = Raw<'m>;
}
impl Kind for Pooled<'static> {
    type At<'m> = Pooled<'m>;
}

/// The region itself.
pub struct Raw<'m>(Region<'m, Ram>);

// SAFETY: that of the region.
unsafe impl AtRest for Raw<'_> {
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        self.0.resting(f)
    }
}

impl<'m> Store<'m> for Raw<'m> {
    const WORDS: usize = WORDS / 2;
    const HAS_OBJECTS: bool = false;
    fn open(region: Region<'m, Ram>) -> Self {
        Raw(region)
    }
    fn read(&mut self) -> State {
        // SAFETY: invariant "Inside the region": words of the region, which are initialised.
        let words = (0..WORDS).map(|i| unsafe { self.0.load(4 * i) }).collect();
        State {
            words,
            objects: [None; OBJECTS],
        }
    }
    fn change(&mut self, from: &State, to: &State) {
        for i in (0..WORDS).filter(|i| from.words[*i] != to.words[*i]) {
            // SAFETY: invariant "Inside the region": a word of the region; no reference exists.
            unsafe { self.0.store(4 * i, to.words[i]) }
        }
    }
    fn shared(&mut self) -> Option<Shared> {
        Some(Shared(RestingRegion {
            base: self.0.base(),
            len: self.0.len(),
            scratch: 0..0,
        }))
    }
}

#[derive(Persist)]
#[repr(C)]
pub struct Large {
    n: u32,
    copies: [u32; 20],
}

#[derive(Persist)]
#[repr(C)]
pub struct Root<'p> {
    words: [u32; WORDS],
    a: Option<PBox<'p, u32>>,
    b: Option<PBox<'p, Large>>,
    c: Option<PBox<'p, u32>>,
}

pub struct Pooled<'m>(Pool<'m, Root<'static>, Ram>);

// SAFETY: that of the pool.
unsafe impl AtRest for Pooled<'_> {
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        self.0.resting(f)
    }
}

const POOL: pmem_tx::Config = pmem_tx::Config {
    journal_entries: 12,
    journal_bytes: 640,
    seq_bits: 3,
};

impl<'m> Store<'m> for Pooled<'m> {
    const WORDS: usize = MOST_WORDS;
    const HAS_OBJECTS: bool = true;
    fn open(region: Region<'m, Ram>) -> Self {
        let pool = Pool::<Root<'static>, Ram>::open_with(region, &POOL, |_| {
            Ok(Root {
                words: [0; WORDS],
                a: None,
                b: None,
                c: None,
            })
        });
        Pooled(pool.map_err(|e| e.error).expect("a pool"))
    }
    fn read(&mut self) -> State {
        let read = self.0.tx(|tx, root| {
            let root = root.get(tx);
            let b = root.b.as_ref().map(|b| {
                let large = b.get(tx);
                assert_eq!(large.copies, [large.n; 20], "a mixture");
                large.n
            });
            let (a, c) = (
                root.a.as_ref().map(|a| *a.get(tx)),
                root.c.as_ref().map(|c| *c.get(tx)),
            );
            Ok((root.words, [a, b, c]))
        });
        let (words, objects) = read.unwrap();
        assert_eq!(self.0.audit().unwrap().unreachable, 0);
        State {
            words: words.to_vec(),
            objects,
        }
    }
    fn change(&mut self, from: &State, to: &State) {
        let mut words = [0; WORDS];
        words.copy_from_slice(&to.words);
        let objects = to.objects;
        let same = core::array::from_fn::<_, OBJECTS, _>(|i| from.objects[i] == to.objects[i]);
        let done = self.0.tx(|tx, root| {
            let root = root.get_mut(tx)?;
            root.words = words;
            if !same[0] {
                if let Some(old) = root.a.take() {
                    old.into_inner(tx)?;
                }
                root.a = objects[0].map(|n| PBox::new(tx, n)).transpose()?;
            }
            if !same[1] {
                if let Some(old) = root.b.take() {
                    old.into_inner(tx)?;
                }
                let large = |n| Large { n, copies: [n; 20] };
                root.b = objects[1].map(|n| PBox::new(tx, large(n))).transpose()?;
            }
            if !same[2] {
                match (&mut root.c, objects[2]) {
                    (Some(old), Some(n)) => *old.get_mut(tx)? = n,
                    (old, None) => {
                        if let Some(old) = old.take() {
                            old.into_inner(tx)?;
                        }
                    }
                    (old, Some(n)) => *old = Some(PBox::new(tx, n)?),
                }
            }
            Ok(())
        });
        done.unwrap();
    }
    /// A save needs the pool at rest.
    fn shared(&mut self) -> Option<Shared> {
        None
    }
}
