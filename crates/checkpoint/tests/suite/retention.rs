//! Which checkpoints the policies keep, without cuts; those are in `crash`.

use checkpoint::{Archive, Error, Every, KeepLast, Landmarks, Memory, Retention, Split};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamNor};

const PROGRAM: u64 = 3;
type Flash = RamNor<12, 256, 4>;

struct State([u8; 20], [u8; 10], [u8; 10]);

impl State {
    fn nth(n: u32) -> Self {
        let byte = |i: usize| (n.wrapping_mul(0x9E37_79B9) >> (i % 24)) as u8;
        State(
            std::array::from_fn(byte),
            std::array::from_fn(|i| byte(i + 3)),
            std::array::from_fn(|i| byte(i + 7)),
        )
    }
    fn memory(&mut self) -> Memory<'_> {
        Memory::new(&mut self.0, &mut self.1, &mut self.2)
    }
    fn check(&self, n: u32) {
        let of = State::nth(n);
        assert!(
            self.0 == of.0 && self.1 == of.1 && self.2 == of.2,
            "a mixture"
        );
    }
}

fn open<D: Medium, P: Retention, const N: usize>(d: D, policy: P) -> Archive<D, Split, P, N> {
    let all = 0..d.capacity();
    Archive::open(d, all, PROGRAM, Split, policy).unwrap_or_else(|e| panic!("{e}"))
}

/// The contexts of the checkpoints kept after `count` checkpoints, from the newest. The archive is
/// opened anew for each.
fn kept<P: Retention + Copy, const N: usize>(count: u32, policy: P) -> Vec<u32> {
    let mut fram = RamFram::<4096>::filled(0);
    for n in 1..=count {
        let mut a = open::<_, _, N>(&mut fram, policy);
        a.checkpoint(n + 100, &State::nth(n).memory(), n).unwrap();
    }
    let list = open::<_, P, N>(&mut fram, policy).list().unwrap();
    let known: Vec<_> = list.iter().map_while(|e| *e).collect();
    assert!(list[known.len()..].iter().all(Option::is_none));
    assert!(
        known
            .iter()
            .all(|e| e.name == e.context + 100 && e.bytes > 40)
    );
    known.iter().map(|e| e.context).collect()
}

#[test]
fn the_last_ones() {
    assert_eq!(kept::<_, 4>(0, KeepLast), [0; 0]);
    assert_eq!(kept::<_, 4>(3, KeepLast), [3, 2, 1]);
    assert_eq!(kept::<_, 4>(50, KeepLast), [50, 49, 48, 47]);
}

#[test]
fn constant_intervals() {
    // A multiple of ten, the one before it, and the newest.
    assert_eq!(kept::<_, 6>(45, Every(10)), [45, 44, 41, 31, 21, 11]);
    assert_eq!(kept::<_, 6>(52, Every(10)), [52, 51, 41, 31, 21, 11]);
    for count in 70..if cfg!(miri) { 71 } else { 90 } {
        let kept = kept::<_, 6>(count, Every(10));
        let landmarks: Vec<_> = kept.iter().filter(|n| **n % 10 == 1).collect();
        assert!(landmarks.len() >= 4, "{kept:?}");
        assert_eq!(kept[0], count);
    }
}

/// The documented properties of landmarks: neighbours, and how far back they reach.
#[test]
fn landmarks() {
    fn check<const N: usize>(base: u32) {
        let all = (1..1200).step_by(7).chain([1000, 1100]);
        for count in all.take(if cfg!(miri) { 3 } else { usize::MAX }) {
            let ages: Vec<_> = kept::<_, N>(count, Landmarks(base))
                .iter()
                .map(|n| count + 1 - n)
                .collect();
            assert_eq!(ages[0], 1);
            assert_eq!(ages.len(), N.min(count as usize));
            for w in ages.windows(2) {
                assert!(w[1] <= base * w[0], "{base}: {ages:?}");
            }
            let reach = base.pow((N as u32 - 3) / 2).min(count);
            assert!(*ages.last().unwrap() >= reach, "{base}: {ages:?}");
        }
    }
    check::<3>(2);
    check::<6>(2);
    check::<9>(2);
    check::<9>(3);
    check::<15>(2);
}

/// A faulty policy that names slots it must not name.
#[derive(Clone, Copy)]
struct Wrong(usize);
impl Retention for Wrong {
    fn victim(&self, _: &[Option<u32>]) -> usize {
        self.0
    }
}

#[test]
fn a_wrong_policy_loses_the_oldest() {
    for place in [0, 1, 2, 3, 4, usize::MAX] {
        let kept = kept::<_, 4>(30, Wrong(place));
        assert_eq!((kept[0], kept.len()), (30, 4), "{place}");
        assert!(kept[1] == 29, "{kept:?}");
    }
}

fn names<D: Medium, P: Retention>(a: &mut Archive<D, Split, P, 5>) -> Vec<u32> {
    let list = a.list().unwrap();
    list.iter().flatten().map(|e| e.name).collect()
}

fn rolls_back<D: Medium>(mut d: D) {
    for n in 1..=3 {
        let mut a = open::<_, _, 5>(&mut d, KeepLast);
        a.checkpoint(n, &State::nth(n).memory(), n).unwrap();
    }
    let mut a = open::<_, _, 5>(&mut d, KeepLast);
    let [newest, _, first, ..] = a.list().unwrap();
    let first = first.unwrap();
    assert_eq!((first.name, first.context), (1, 1));
    assert!(matches!(
        a.delete(newest.unwrap().sequence),
        Err(Error::Newest)
    ));
    let mut state = State::nth(0);
    assert!(matches!(
        a.roll_back(99, &state.memory()),
        Err(Error::NoImage)
    ));
    a.roll_back(first.sequence, &state.memory()).unwrap();
    state.check(0);

    let mut a = open::<_, _, 5>(&mut d, KeepLast);
    let r = a.restore(&mut state.memory()).unwrap();
    assert_eq!((r.name, r.context, r.damaged), (1, 1, 0));
    state.check(1);
    assert_eq!(names(&mut a), [1, 3, 2, 1]);
    // Rolling back to the newest does nothing.
    a.roll_back(r.sequence, &state.memory()).unwrap();
    let before = a.list().unwrap();
    for e in before.iter().flatten().skip(1) {
        a.delete(e.sequence).unwrap();
        assert!(matches!(a.delete(e.sequence), Err(Error::NoImage)));
    }
    assert_eq!(names(&mut a), [1]);
    let mut a = open::<_, _, 5>(&mut d, KeepLast);
    assert_eq!(names(&mut a), [1]);
    assert_eq!(a.restore(&mut state.memory()).unwrap().sequence, r.sequence);
    state.check(1);
}

#[test]
fn rolls_back_and_deletes() {
    rolls_back(RamFram::<1024>::filled(0xFF));
    rolls_back(Flash::new());
}

/// With all slots full, the policy's victim would be the oldest, which is being copied.
#[test]
fn rolls_back_to_the_oldest_of_many() {
    let mut d = Flash::new();
    let mut a = open::<_, _, 4>(&mut d, KeepLast);
    for n in 1..=4 {
        a.checkpoint(n, &State::nth(n).memory(), n).unwrap();
    }
    let mut state = State::nth(0);
    let oldest = a.list().unwrap()[3].unwrap();
    a.roll_back(oldest.sequence, &state.memory()).unwrap();
    a.restore(&mut state.memory()).unwrap();
    state.check(1);
    let list = a.list().unwrap();
    assert_eq!(list.map(|e| e.map_or(0, |e| e.name)), [1, 4, 3, 1]);
}

/// Another program's images are not listed, and a damaged one cannot be rolled back to.
#[test]
fn other_programs_and_damage() {
    let mut fram = RamFram::<1024>::filled(0);
    for n in 1..=4 {
        let mut a = open::<_, _, 4>(&mut fram, KeepLast);
        a.checkpoint(n, &State::nth(n).memory(), n).unwrap();
    }
    let mut other =
        Archive::<_, _, _, 4>::open(&mut fram, 0..1024, PROGRAM + 1, Split, KeepLast).unwrap();
    assert_eq!(other.list().unwrap(), [None; 4]);
    let slot = 256;
    fram.bytes_mut()[2 * slot + 60] ^= 1;
    let mut a = open::<_, _, 4>(&mut fram, KeepLast);
    let third = a.list().unwrap()[1].unwrap();
    assert_eq!(third.name, 3);
    let mut state = State::nth(0);
    let refused = a.roll_back(third.sequence, &state.memory());
    assert!(matches!(refused, Err(Error::Damaged)));
    let mut small = [0; 1];
    let small = Memory::new(&mut small, &mut [], &mut []);
    let second = a.list().unwrap()[2].unwrap();
    assert!(matches!(
        a.roll_back(second.sequence, &small),
        Err(Error::OtherMemory)
    ));
    assert_eq!(a.restore(&mut state.memory()).unwrap().name, 4);
    // The same for the newest: `restore` would restore an older one.
    let newest = a.list().unwrap()[0].unwrap();
    fram.bytes_mut()[3 * slot + 60] ^= 1;
    let mut a = open::<_, _, 4>(&mut fram, KeepLast);
    let refused = a.roll_back(newest.sequence, &state.memory());
    assert!(matches!(refused, Err(Error::Damaged)));
    let r = a.restore(&mut state.memory()).unwrap();
    assert_eq!((r.name, r.damaged), (2, 2));
}
