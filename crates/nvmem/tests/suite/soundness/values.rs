//! Values, closures that unwind, and observers.

use core::mem::MaybeUninit;
use nvmem::instrument::{Observer, observe};
use nvmem::persist::{from_bytes, to_bytes};
use nvmem::{InOrder32, List, Maybe, Medium, Persist, Plain, Postcard, Region, Text};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Any bytes are refused or become a value, which encodes to the same bytes.
fn any<T: Plain + Clone + core::fmt::Debug>() {
    let mut rng = powerfail::Rng::new(1);
    let (mut good, n) = (0, size_of::<T>());
    for _ in 0..if cfg!(miri) { 60 } else { 5000 } {
        let bytes: Vec<u8> = (0..n)
            .map(|_| {
                let x = rng.next_u32();
                let b = (x >> 24) as u8;
                if x & 0x700 == 0 { b } else { b & 1 }
            })
            .collect();
        let Ok(v) = from_bytes::<T>(&bytes) else {
            continue;
        };
        good += 1;
        let shown = format!("{v:?}");
        let mut buf = [const { MaybeUninit::uninit() }; 64];
        let again = to_bytes(v.clone(), &mut buf).unwrap();
        assert_eq!(again.len(), n);
        assert_eq!(format!("{:?}", from_bytes::<T>(again).unwrap()), shown);
    }
    assert!(good > 0, "{}", core::any::type_name::<T>());
}

#[derive(Persist, Clone, Copy, Debug)]
#[repr(C, u16)]
#[allow(dead_code, reason = "made of bytes")]
enum Deep {
    A,
    B([Maybe<Option<core::num::NonZeroU16>>; 2], bool),
    C(char, u8),
}

#[test]
fn any_bytes() {
    any::<bool>();
    any::<char>();
    any::<Option<core::num::NonZeroI32>>();
    any::<Maybe<Maybe<bool>>>();
    any::<[Maybe<u64>; 2]>();
    any::<Deep>();
    any::<()>();
    any::<List<bool, 3>>();
    any::<[List<Maybe<u16>, 2>; 2]>();
    any::<Text<4>>();
    any::<Postcard<u16, 4>>();
}

/// A closure that unwinds leaves an option as it was, or empty.
#[test]
fn an_option_whose_closure_unwinds() {
    let mut v = Maybe::<u32>::None;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        v.get_or_insert_with(|| resume_unwind(Box::new(())));
    }));
    assert!(caught.is_err() && v.is_none());
    let caught = catch_unwind(|| Maybe::Some(7u8).map(|_| -> u8 { resume_unwind(Box::new(())) }));
    assert!(caught.is_err());
    assert_eq!((v.replace(1), v.take(), v.take()), (None, Some(1), None));
}

/// Unwinds at the n-th store, with another observer installed inside.
struct Hostile<'s> {
    stores: Cell<u32>,
    seen: &'s Cell<u32>,
}

impl Observer for Hostile<'_> {
    fn store(&self, _: *mut u8, _: &[u8]) {
        self.seen.set(self.seen.get() + 1);
        self.stores.set(self.stores.get().wrapping_sub(1));
        if self.stores.get() == 0 {
            let mut words = [MaybeUninit::new(0u64); 2];
            let other = Hostile {
                stores: Cell::new(0),
                seen: self.seen,
            };
            observe(&other, || {
                let _ = Region::<InOrder32>::new(&mut words).write(0, &[1; 8]);
            });
            resume_unwind(Box::new(()));
        }
    }
}

/// An observer is never called after its end, also if that was an unwind.
#[test]
fn an_observer_that_unwinds() {
    let seen = Cell::new(0);
    let mut words = [MaybeUninit::new(0u64); 4];
    let mut r = Region::<InOrder32>::new(&mut words);
    for n in 1..6 {
        let before = seen.get();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let o = Hostile {
                stores: Cell::new(n),
                seen: &seen,
            };
            observe(&o, || r.write(0, &[n as u8; 16]).unwrap());
        }));
        assert_eq!(ended.is_err(), n <= 4);
        let during = seen.get() - before;
        assert_eq!(during, if n <= 4 { n + 2 } else { 4 });
        r.write(0, &[9; 16]).unwrap();
        assert_eq!(seen.get() - before, during, "nobody listens");
    }
}
