//! The simulated media of a program under test.

use crate::arena::Arena;
use crate::observe::Recorder;
use crate::trace::MediumInfo;
use nvmem::{Model, Region, Unit};
use std::marker::PhantomData;

/// One or more simulated media. [`explore`](crate::explore()) passes [`Media::Nv`] to the program
/// at each boot.
///
/// Implemented by the media of this crate and by tuples of them.
pub trait Media: Send + Sync + 'static {
    /// The program's access to the media, valid for one run.
    type Nv<'r>;
    /// For the engine.
    #[doc(hidden)]
    fn parts(&self, out: &mut MediaLayout);
    /// For the engine.
    ///
    /// # Safety
    /// `run` hands out each medium once, and the memory stays valid for `'r`.
    #[doc(hidden)]
    unsafe fn attach<'r>(&self, run: &mut Attach<'r>) -> Self::Nv<'r>;
}

/// For the engine.
#[doc(hidden)]
pub struct MediaLayout {
    pub(crate) parts: Vec<MediumInfo>,
    pub(crate) image: Vec<u8>,
}

impl MediaLayout {
    pub(crate) fn of<M: Media>(media: &M) -> Self {
        let mut out = MediaLayout {
            parts: Vec::new(),
            image: Vec::new(),
        };
        media.parts(&mut out);
        out
    }

    /// Makes the memory of the media in their initial state.
    pub(crate) fn arena(&self, image: Option<&[u8]>, skew: usize) -> (Arena, Vec<MediumInfo>) {
        let mut all = self.image.clone();
        if let Some(image) = image {
            let first = self.parts[0].len as usize;
            assert_eq!(
                image.len(),
                first,
                "the initial image must be as long as the first medium"
            );
            all[..first].copy_from_slice(image);
        }
        (Arena::new(&all, skew), self.parts.clone())
    }

    pub(crate) fn add(&mut self, part: MediumInfo, image: &[u8]) {
        self.image.resize(self.image.len().next_multiple_of(64), 0);
        self.parts.push(MediumInfo {
            at: self.image.len() as u32,
            len: image.len() as u32,
            ..part
        });
        self.image.extend_from_slice(image);
    }
}

/// For the engine.
#[doc(hidden)]
pub struct Attach<'r> {
    pub(crate) rec: &'r Recorder,
    pub(crate) base: *mut u8,
    pub(crate) parts: std::slice::Iter<'r, MediumInfo>,
}

/// A memory-mapped medium with the failure model `M`. The program gets an [`nvmem::Region`].
///
/// ```
/// use powerfail::{explore, Mapped, World};
/// use nvmem::InOrder32;
///
/// explore(Mapped::<InOrder32>::new(64), |nv, world: &World<u32>| {
///     // SAFETY: offset 0 is a unit of the region, and no reference to it exists.
///     let n = unsafe { nv.load(0) };
///     assert!(n >= world.last_acknowledged());
///     if n < 10 {
///         // SAFETY: as above.
///         unsafe { nv.store(0, n + 1) };
///         world.acknowledge(n + 1);
///     }
/// })
/// .depth(2)
/// .run();
/// ```
pub struct Mapped<M> {
    image: Vec<u8>,
    _m: PhantomData<fn() -> M>,
}

impl<M: Model> Mapped<M> {
    /// `len` bytes, all zero. A region uses whole groups of eight.
    pub fn new(len: usize) -> Self {
        Self::with_image(vec![0; len])
    }

    /// A medium that holds `image` at the first boot.
    pub fn with_image(image: Vec<u8>) -> Self {
        Mapped {
            image,
            _m: PhantomData,
        }
    }
}

impl<M: Model> Media for Mapped<M> {
    type Nv<'r> = Region<'r, M>;

    fn parts(&self, out: &mut MediaLayout) {
        let part = MediumInfo {
            unit: M::Unit::BYTES as u8,
            buffered: M::BUFFERED,
            ..MediumInfo::of(M::NAME)
        };
        out.add(part, &self.image);
    }

    unsafe fn attach<'r>(&self, run: &mut Attach<'r>) -> Region<'r, M> {
        let part = run.parts.next().expect("one part for each medium");
        // SAFETY: the medium lies in the arena, which is initialised and valid for `'r`. Media do
        // not overlap.
        unsafe {
            let start = run.base.add(part.at as usize);
            Region::from_raw(start, start.add(part.len as usize))
        }
        .expect("a medium of at least 8 bytes")
    }
}

macro_rules! tuples {
    ($($($m:ident)+;)+) => {$(
        impl<$($m: Media),+> Media for ($($m,)+) {
            type Nv<'r> = ($($m::Nv<'r>,)+);
            #[allow(non_snake_case)]
            fn parts(&self, out: &mut MediaLayout) {
                let ($($m,)+) = self;
                $($m.parts(out);)+
            }
            #[allow(non_snake_case)]
            unsafe fn attach<'r>(&self, run: &mut Attach<'r>) -> Self::Nv<'r> {
                let ($($m,)+) = self;
                // SAFETY: forwarded; each medium takes its own memory, in order.
                unsafe { ($($m.attach(run),)+) }
            }
        }
    )+};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
}
