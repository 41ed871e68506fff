//! The store alone. [`Run`] runs all steps of an operation.

mod basic;
mod check;
mod crash;
mod golden;
mod hostile;

use super::*;
use crate::config::Config;
use crate::config::{JustInTime, Promise, Snapshot};
use crate::walk::{DONE, Marks};
use core::fmt::Debug;
use std::vec::Vec;

pub(super) const CONFIG: Config = Config {
    objects: 12,
    max_pins: 2,
    ..Config::DEFAULT
};
pub(super) const PRINT: u64 = 0x0123_4567_89AB_CDEF;

/// The most bytes that one step may write: what the crate says of its bursts.
fn step<S: Medium, P: Promise, R>(s: &mut Store<S, P>, f: impl FnOnce(&mut Store<S, P>) -> R) -> R {
    let before = s.traffic().0;
    let r = f(s);
    let n = s.traffic().0.wrapping_sub(before);
    // A record may precede the first change.
    assert!(n <= u32::from(s.burst) + 12, "{n} bytes in one step");
    r
}

/// All steps of an operation.
fn steps<S: Medium, P: Promise, R>(
    s: &mut Store<S, P>,
    mut f: impl FnMut(&mut Store<S, P>) -> Result<R, Fail>,
) -> Result<R, Error<S::Error>> {
    loop {
        match step(s, &mut f) {
            Err(Fail::PENDING) => {}
            r => return r.map_err(|f| s.error(f)),
        }
    }
}

/// The result of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opened {
    Blank,
    Ready,
}

/// Opening and formatting.
impl<S: Medium, P: Promise> Store<S, P> {
    pub(super) fn opened(
        medium: S,
        config: &Config,
        fingerprint: u64,
    ) -> Result<(Self, Opened), crate::OpenError<S::Error>> {
        let mut s = Self::new(medium, config);
        let mut copies = core::mem::MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut copies);
        match s.open(config, fingerprint, copies) {
            Ok(()) => Ok((s, Opened::Ready)),
            Err(Fail::BLANK) => Ok((s, Opened::Blank)),
            Err(f) => Err(s.refused(f, fingerprint, copies)),
        }
    }

    pub(super) fn formatted(
        medium: S,
        config: &Config,
        fingerprint: u64,
    ) -> Result<Self, crate::OpenError<S::Error>> {
        let mut s = Self::new(medium, config);
        match s.begin(config, fingerprint) {
            Err(Fail::BLANK) => Ok(s),
            Ok(()) => unreachable!("a format says so"),
            Err(f) => Err(f.refusal(s.image.take_failure())),
        }
    }
}

/// Whole operations.
pub(super) trait Run<E> {
    fn alloc_all(&mut self, n: u16, len: u16) -> Result<u16, Error<E>>;
    fn free_all(&mut self, id: u16) -> Result<(), Error<E>>;
    fn put_all(&mut self, id: u16, bytes: &[u8]) -> Result<(), Error<E>>;
    fn get_all(&mut self, id: u16) -> Result<Vec<u8>, Error<E>>;
    fn commit_all(&mut self) -> Result<(), Error<E>>;
}

impl<S: Medium, P: Promise> Run<S::Error> for Store<S, P> {
    fn alloc_all(&mut self, n: u16, len: u16) -> Result<u16, Error<S::Error>> {
        let mut a = Alloc::run(n, len);
        steps(self, |s| s.alloc::<true>(&mut a))?;
        Ok(a.id())
    }

    fn free_all(&mut self, id: u16) -> Result<(), Error<S::Error>> {
        let len = self.image.locate(id).map_or(0, |place| place.len);
        let mut f = Free::new(id, len);
        steps(self, |s| s.free(&mut f))
    }

    /// In the order of a write-back: all pieces but the first, then the check and the first piece
    /// in one write.
    fn put_all(&mut self, id: u16, bytes: &[u8]) -> Result<(), Error<S::Error>> {
        let len = bytes.len() as u16;
        if P::SNAPSHOT {
            let mut b = BeginWrite::new(id, len);
            steps(self, |s| s.begin_write(&mut b))?;
        } else {
            steps(self, |s| s.before_change())?;
        }
        let at = steps(self, |s| s.address_of(id, len, true))?;
        let mut check = Check::new(id, len);
        for (i, piece) in bytes.chunks(PIECE).enumerate() {
            check.add(piece);
            if i > 0 {
                steps(self, |s| s.image.put(at + (i * PIECE) as u32, piece))?;
            }
        }
        let mut first = check.finish().to_le_bytes().to_vec();
        first.extend(bytes.iter().take(PIECE));
        steps(self, |s| s.image.put(at - CHECK_BYTES, &first))
    }

    fn get_all(&mut self, id: u16) -> Result<Vec<u8>, Error<S::Error>> {
        let place = steps(self, |s| s.image.locate(id))?;
        let mut bytes = std::vec![0; usize::from(place.len)];
        steps(self, |s| s.read_object(id, &mut bytes))?;
        Ok(bytes)
    }

    fn commit_all(&mut self) -> Result<(), Error<S::Error>> {
        let mut c = Commit::new();
        steps(self, |s| s.commit(&mut c))
    }
}

/// Persists or commits.
pub(super) fn save<S: Medium, P: Promise>(s: &mut Store<S, P>)
where
    S::Error: Debug,
{
    if P::SNAPSHOT {
        s.commit_all().unwrap()
    } else {
        s.set_persisted(0).unwrap()
    }
}

/// Opens a store whose root, of 4 bytes, has a bit for each reachable object.
pub(super) fn open<S: Medium, P: Promise>(
    medium: S,
    config: &Config,
) -> Result<Store<S, P>, crate::OpenError<S::Error>> {
    let (mut s, opened) = Store::<S, P>::opened(medium, config, PRINT)?;
    if opened == Opened::Blank {
        let root = s.alloc_all(1, 4)?;
        assert_eq!(root, 1);
        s.put_all(1, &0u32.to_le_bytes())?;
        save(&mut s);
        steps(&mut s, |s| s.finish_format(PRINT))?;
    } else {
        let root = reachable(&mut s)?;
        steps(&mut s, |s| {
            sweep(s, |id| id == 1 || id < 32 && root >> id & 1 != 0)
        })?;
    }
    Ok(s)
}

/// The sweep, when these objects are reachable.
pub(super) fn sweep<S: Medium, P: Promise>(
    s: &mut Store<S, P>,
    reachable: impl Fn(u16) -> bool,
) -> Result<(), Fail> {
    let mut bits = std::vec![0; usize::from(s.objects()) / 2 + 1];
    let mut marks = Marks { bits: &mut bits };
    let mut count = 0;
    for id in (1..=s.objects()).filter(|id| reachable(*id)) {
        marks.set(id, DONE);
        count += 1;
    }
    s.sweep(&mut marks, count, 0)
}

/// The root's bits.
pub(super) fn reachable<S: Medium, P: Promise>(
    s: &mut Store<S, P>,
) -> Result<u32, Error<S::Error>> {
    let root = s.get_all(1)?;
    Ok(u32::from_le_bytes(
        *root.first_chunk().ok_or(Error::Damaged { object: 1 })?,
    ))
}

/// Table and bitmap match the reachable objects exactly: no unit is lost, none is shared.
pub(super) fn audit<S: Medium, P: Promise>(s: &mut Store<S, P>, root: u32)
where
    S::Error: Debug,
{
    let mut units = std::vec![false; usize::from(s.image.geometry().units)];
    let mut ids = 0;
    for id in 1..=s.image.geometry().objects {
        if id != 1 && (id > 31 || root >> id & 1 == 0) {
            assert_eq!(
                s.image.entry(id).unwrap(),
                Entry::FREE,
                "object {id} is leaked"
            );
            continue;
        }
        ids += 1;
        let e = s.image.entry(id).unwrap();
        let place = s.image.locate(id).unwrap();
        let mut blocks = std::vec![e.pending()];
        if P::SNAPSHOT && e.committed() != e.pending() && e.committed() != 0 {
            blocks.push(e.committed());
        }
        for b in blocks {
            for u in b..b + units_of(place.len) {
                let u = &mut units[usize::from(u) - 1];
                assert!(!*u, "object {id} shares a unit");
                *u = true;
            }
        }
    }
    let mut bits = std::vec![0; s.image.geometry().bitmap_len() as usize];
    let at = s.image.geometry().bitmap();
    s.image.get(at, &mut bits).unwrap();
    for (i, used) in units.iter().enumerate() {
        assert_eq!(bits[i / 8] >> (i % 8) & 1 != 0, *used, "unit {}", i + 1);
    }
    let used = units.iter().filter(|u| **u).count();
    assert_eq!(usize::from(s.free_units), units.len() - used);
    assert_eq!(s.free_ids, s.image.geometry().objects - ids);
}
