//! Regions: alignment, splitting, threads, and typed values.

use core::mem::MaybeUninit;
use nvmem::device::{Medium, Misuse};
use nvmem::superblock::{self, State, Superblock};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, RegionError};

const SB: Superblock = Superblock {
    kind: *b"TEST",
    version: 1,
    fingerprint: 0x0102_0304_0506_0708,
    params: [0; 8],
};

/// Formats a region in a buffer of words at any address that the target allows.
fn anywhere<M: Model>() {
    let mut memory = [MaybeUninit::<u16>::new(0); 128];
    for skip in 0..4 {
        memory.fill(MaybeUninit::new(0));
        let start = memory.as_mut_ptr().wrapping_add(skip);
        if !start.cast::<u64>().is_aligned() {
            continue;
        }
        // SAFETY: aligned, inside the memory, and used by nobody else.
        let words = unsafe { core::slice::from_raw_parts_mut(start.cast(), 20) };
        let mut r = Region::<M>::new(words);
        assert!((r.base() as usize).is_multiple_of(Region::<M>::ALIGN));
        assert!(r.base() as usize >= start as usize);
        assert!(r.base() as usize + r.len() <= start as usize + 160);
        assert!(r.len() >= 152 && r.len().is_multiple_of(8));
        superblock::begin(&mut r, &SB);
        superblock::finish(&mut r, &SB);
        assert_eq!(superblock::probe(&r, &SB), State::Ready(SB));
        let last = r.capacity() - 3;
        assert_eq!(r.write(last, &[1, 2, 3]), Ok(()));
        let mut b = [0; 3];
        assert_eq!(r.read(last, &mut b), Ok(()));
        assert_eq!(b, [1, 2, 3]);
    }
}

#[test]
fn a_buffer_may_begin_anywhere() {
    anywhere::<InOrder16>();
    anywhere::<InOrder32>();
    anywhere::<Buffered32>();
}

/// An empty region: nothing is read or written, nothing panics.
#[test]
fn a_region_without_bytes() {
    let mut r = Region::<InOrder32>::new(&mut []);
    assert_eq!((r.len(), r.capacity()), (0, 0));
    assert!((r.base() as usize).is_multiple_of(8));
    assert_eq!(superblock::probe(&r, &SB), State::Foreign);
    superblock::begin(&mut r, &SB);
    superblock::replace(&mut r, &SB);
    superblock::finish(&mut r, &SB);
    assert_eq!(superblock::copies(&r), [None; 2]);
    assert_eq!(r.read(0, &mut []), Ok(()));
    assert_eq!(r.read(0, &mut [0]), Err(Misuse::OutOfRange));
    assert_eq!(r.write(u32::MAX, &[0]), Err(Misuse::OutOfRange));
    let (a, b) = r.split_at(0).ok().unwrap();
    assert_eq!((a.len(), b.len()), (0, 0));
    assert!(matches!(b.split_at(8), Err((RegionError::BadSplit, _))));
}

/// Splits a region at every offset and uses both parts at the same time, in either order.
#[test]
fn split_parts_do_not_overlap() {
    for at in 0..=48 {
        let mut words = [MaybeUninit::new(0u64); 6];
        let r = Region::<InOrder16>::new(&mut words);
        let len = r.len();
        match r.split_at(at) {
            Ok((mut a, mut b)) => {
                assert_eq!((a.len(), b.len()), (at, len - at));
                for i in 0..b.capacity() {
                    b.write(i, &[2]).unwrap();
                }
                for i in 0..a.capacity() {
                    a.write(i, &[1]).unwrap();
                }
                let (mut of_a, mut of_b) = (vec![0; a.len()], vec![0; b.len()]);
                b.read(0, &mut of_b).unwrap();
                a.read(0, &mut of_a).unwrap();
                assert!(of_a.iter().all(|v| *v == 1) && of_b.iter().all(|v| *v == 2));
            }
            Err((e, whole)) => {
                assert_eq!(e, RegionError::BadSplit);
                assert!(!at.is_multiple_of(8) || at > len);
                assert_eq!(whole.len(), len);
            }
        }
    }
}

/// A region goes to another thread and comes back.
#[test]
fn a_region_in_another_thread() {
    let mut words = [MaybeUninit::new(0u64); 20];
    let mut r = Region::<Buffered32>::new(&mut words);
    std::thread::scope(|s| {
        s.spawn(|| superblock::begin(&mut r, &SB));
    });
    superblock::finish(&mut r, &SB);
    assert_eq!(superblock::probe(&r, &SB), State::Ready(SB));
}

/// A region with values written in place is not read as bytes: padding may be uninitialised.
#[test]
fn values_are_not_read_as_bytes() {
    for fill in [0, 0x5A] {
        let mut words = [MaybeUninit::new(0u64); 40];
        let mut r = Region::<InOrder32>::new(&mut words);
        superblock::begin(&mut r, &SB);
        superblock::finish(&mut r, &SB);
        r.mark_values();
        // SAFETY: inside, and nothing is lent; like the assignment of a padded value through a
        // `&mut`.
        unsafe {
            let at = r
                .base()
                .add(Superblock::BYTES)
                .cast::<MaybeUninit<[u8; 64]>>();
            at.write(MaybeUninit::uninit());
        }
        assert!(r.read(128, &mut [0; 4]).is_err());
        assert_eq!(superblock::probe(&r, &SB), State::Ready(SB));
        // The superblock is overwritten: the bytes after it are not read.
        let _ = r.write(0, &[fill; 128]);
        let _ = superblock::probe(&r, &SB);
        assert!(!matches!(
            superblock::probe(&r, &SB),
            State::Blank | State::Formatting
        ));
        r.clear();
        assert_eq!(superblock::probe(&r, &SB), State::Blank);
    }
}
