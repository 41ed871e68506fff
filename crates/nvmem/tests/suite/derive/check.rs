//! Which bytes a check accepts.

use crate::derive::handle::PBox;
use core::mem::MaybeUninit;
use core::num::NonZeroU16;
use nvmem::persist::{HandleKind, NoHandles, Visit, from_bytes, to_bytes};
use nvmem::{Invalid, Maybe, Persist, Plain};

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Mode {
    Off = 1,
    On = 3,
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Event {
    Nothing,
    Key(char),
    Moved { mode: Mode, by: Maybe<bool> },
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Data {
    on: bool,
    n: u32,
    id: NonZeroU16,
    events: [Event; 2],
    other: Option<NonZeroU16>,
}

const GOOD: Data = Data {
    on: true,
    n: 0xdead_beef,
    id: NonZeroU16::new(7).unwrap(),
    events: [
        Event::Key('ß'),
        Event::Moved {
            mode: Mode::On,
            by: Maybe::Some(true),
        },
    ],
    other: None,
};

fn bytes<T: Plain>(v: T) -> Vec<u8> {
    let mut buf = [MaybeUninit::uninit(); 128];
    to_bytes(v, &mut buf).unwrap().to_vec()
}

#[test]
fn values_come_back() {
    assert_eq!(from_bytes::<Data>(&bytes(GOOD)), Ok(GOOD));
    for e in [Event::Nothing, GOOD.events[0], GOOD.events[1]] {
        assert_eq!(from_bytes::<Event>(&bytes(e)), Ok(e));
    }
    let short = from_bytes::<Data>(&bytes(GOOD)[1..]);
    assert!(matches!(short, Err(Invalid::Bits(_))));
    assert!(to_bytes(GOOD, &mut [MaybeUninit::uninit(); 3]).is_none());
}

#[test]
fn an_invalid_value_is_named() {
    let events = core::mem::offset_of!(Data, events);
    let second = events + size_of::<Event>();
    let id = core::mem::offset_of!(Data, id);
    let cases: &[(usize, &[u8], &str)] = &[
        (0, &[2], "bool"),
        (0, &[255], "bool"),
        (id, &[0, 0], "NonZeroU16"),
        (events, &[3], "Event"),
        // A surrogate, and beyond the last code point.
        (events + 4, &0xd800u32.to_ne_bytes(), "char"),
        (events + 4, &0x11_0000u32.to_ne_bytes(), "char"),
        (second + 1, &[0], "Mode"),
        (second + 1, &[2], "Mode"),
        (second + 2, &[2], "Maybe"),
        (second + 3, &[2], "bool"),
    ];
    for &(at, bad, name) in cases {
        let mut b = bytes(GOOD);
        b[at..at + bad.len()].copy_from_slice(bad);
        assert_eq!(
            from_bytes::<Data>(&b),
            Err(Invalid::Bits(name)),
            "{bad:?} at {at}"
        );
    }
}

#[test]
fn bytes_outside_the_variant_are_ignored() {
    let mut b = bytes(Event::Nothing);
    b[1..].fill(0xff);
    assert_eq!(from_bytes::<Event>(&b), Ok(Event::Nothing));
    let mut b = bytes(Maybe::<bool>::None);
    b[1] = 9;
    assert_eq!(from_bytes::<Maybe<bool>>(&b), Ok(Maybe::None));
}

#[test]
fn every_tag_byte() {
    let known: Vec<u8> = (0..=255)
        .filter(|&b| from_bytes::<Mode>(&[b]).is_ok())
        .collect();
    assert_eq!(known, [1, 3]);
    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[repr(i16)]
    enum Signed {
        Low = i16::MIN,
        Before = -2,
        Next,
        Zero,
        High = i16::MAX,
    }
    let known: Vec<i16> = (i16::MIN..=i16::MAX)
        .step_by(if cfg!(miri) { 97 } else { 1 })
        .filter(|&b| from_bytes::<Signed>(&b.to_ne_bytes()).is_ok())
        .collect();
    if !cfg!(miri) {
        assert_eq!(known, [i16::MIN, -2, -1, 0, i16::MAX]);
    }
    assert_eq!(
        from_bytes::<Signed>(&(-1i16).to_ne_bytes()),
        Ok(Signed::Next)
    );
}

/// Records the handles.
#[derive(Default)]
struct Seen(Vec<(u32, usize)>);
impl Visit for Seen {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        if value >= 100 {
            return Err(Invalid::Handle(found.family));
        }
        self.0.push((value, found.target.size));
        Ok(())
    }
}

#[derive(Persist)]
#[repr(C)]
struct Holder<'p, T> {
    first: Option<PBox<'p, T>>,
    on: bool,
    rest: [Maybe<PBox<'p, Holder<'p, T>>>; 2],
    last: Owner<'p>,
}

#[derive(Persist)]
#[repr(u8)]
enum Owner<'p> {
    Nobody,
    One(u8, PBox<'p, [u16; 5]>),
}

fn check<T: Persist>(v: &T) -> Result<Vec<(u32, usize)>, Invalid> {
    let mut seen = Seen::default();
    // SAFETY: a value.
    unsafe { T::check((&raw const *v).cast(), &mut seen)? }
    Ok(seen.0)
}

#[test]
fn every_handle_is_visited() {
    let mut h = Holder::<u64> {
        first: None,
        on: true,
        rest: [Maybe::None, Maybe::None],
        last: Owner::Nobody,
    };
    assert_eq!(check(&h), Ok(vec![]));
    h.first = Some(PBox::new(8));
    h.rest[1] = Maybe::Some(PBox::new(16));
    h.last = Owner::One(1, PBox::new(24));
    let holder = size_of::<Holder<'_, u64>>();
    assert_eq!(check(&h), Ok(vec![(8, 8), (16, holder), (24, 10)]));
    h.last = Owner::One(1, PBox::new(100));
    assert_eq!(check(&h), Err(Invalid::Handle("test")));
    // SAFETY: a value.
    let refused = unsafe { Holder::<u64>::check((&raw const h).cast(), &mut NoHandles) };
    assert_eq!(refused, Err(Invalid::Family("test")));
}

mod random {
    use super::*;
    use proptest::prelude::*;

    fn mode() -> impl Strategy<Value = Mode> {
        prop_oneof![Just(Mode::Off), Just(Mode::On)]
    }
    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Nothing),
            any::<char>().prop_map(Event::Key),
            (mode(), any::<Option<bool>>()).prop_map(|(mode, by)| Event::Moved {
                mode,
                by: by.into()
            }),
        ]
    }
    fn data() -> impl Strategy<Value = Data> {
        let id = (1..=u16::MAX).prop_map(|n| NonZeroU16::new(n).unwrap());
        (
            any::<bool>(),
            any::<u32>(),
            id,
            [event(), event()],
            any::<u16>(),
        )
            .prop_map(|(on, n, id, events, other)| Data {
                on,
                n,
                id,
                events,
                other: NonZeroU16::new(other),
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 512 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn bytes_and_back(v in data()) {
            let b = bytes(v);
            prop_assert_eq!(from_bytes::<Data>(&b), Ok(v));
            // The same value has the same bytes, with any previous padding.
            prop_assert_eq!(bytes(from_bytes::<Data>(&b).unwrap()), b);
        }

        /// Any bytes are refused, or are a value that encodes to a valid value again.
        #[test]
        fn hostile_bytes(mut b in proptest::collection::vec(0u8..5, size_of::<Data>()), wild in any::<[u8; 4]>()) {
            b[4..8].copy_from_slice(&wild);
            if let Ok(v) = from_bytes::<Data>(&b) {
                prop_assert_eq!(from_bytes::<Data>(&bytes(v)), Ok(v));
            }
        }
    }
}

#[derive(Persist)]
#[repr(C)]
struct Link<'p> {
    n: u32,
    next: Option<PBox<'p, Link<'p>>>,
}

#[derive(Persist)]
#[repr(u8)]
enum Either<'p> {
    Plain(u8),
    Held(PBox<'p, u32>),
}

#[test]
fn handles_is_true_only_with_handles() {
    const {
        assert!(!Data::HANDLES && !<[Event; 2]>::HANDLES && !<()>::HANDLES);
        assert!(Link::HANDLES && Either::HANDLES && <[Maybe<Link<'static>>; 1]>::HANDLES);
        assert!(!<[Link<'static>; 0]>::HANDLES);
    }
    let _ = |h: Link<'_>| (h.n, h.next.is_some());
    let _ = [Either::Plain(1), Either::Held(PBox::new(1))];
}
