//! Values of all kinds as bytes: any bytes are refused, or they are a value that has one image.
//!
//! The judge reads the bytes by the rules of the format: it knows which are a value, and what they
//! are with the unused ones cleared. Types are fixed by the compiler, so the bytes are generated.

use super::cases;
use crate::derive::handle::PBox;
use nvmem::device::{Medium, Misuse};
use nvmem::persist::{HandleKind, Visit, from_bytes, to_bytes};
use nvmem::superblock::{self, State, Superblock};
use nvmem::{
    Buffered32, InOrder16, InOrder32, Invalid, List, Maybe, Model, Persist, Region, RegionError,
    Text,
};
use proptest::prelude::*;
use std::mem::{MaybeUninit, offset_of};
use std::num::NonZeroU16;

#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
#[allow(dead_code)] // made from bytes
enum Mode {
    Off = 1,
    On = 3,
}

#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
struct Settings {
    on: bool,
    limit: u32,
    mode: Mode,
    id: Option<NonZeroU16>,
    flags: List<bool, 5>,
    name: Text<7>,
    at: Maybe<u16>,
    steps: List<Maybe<u16>, 3>,
}

const SIZE: usize = size_of::<Settings>();

/// Reads bytes by the rules of the format, and makes their image.
struct Judge<'a> {
    bytes: &'a [u8],
    image: [u8; SIZE],
    valid: bool,
}

impl Judge<'_> {
    fn number(&self, at: usize) -> usize {
        u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]).into()
    }

    /// So many bytes are used.
    fn uses(&mut self, at: usize, n: usize) {
        self.image[at..at + n].copy_from_slice(&self.bytes[at..at + n]);
    }

    /// A byte that may have these values.
    fn one_of(&mut self, at: usize, values: &[u8]) {
        self.valid &= values.contains(&self.bytes[at]);
        self.uses(at, 1);
    }

    /// The length of a list or text. 0 if it is too long, and then nothing else matters.
    fn len(&mut self, at: usize, most: usize) -> usize {
        let n = self.number(at);
        self.valid &= n <= most;
        self.uses(at, 2);
        if n <= most { n } else { 0 }
    }

    /// A tag, a gap, and a number of two bytes if there is one.
    fn maybe(&mut self, at: usize) {
        self.one_of(at, &[0, 1]);
        if self.bytes[at] == 1 {
            self.uses(at + 2, 2);
        }
    }

    fn settings(bytes: &[u8]) -> Judge<'_> {
        let image = [0; SIZE];
        let mut judge = Judge {
            bytes,
            image,
            valid: true,
        };
        judge.one_of(offset_of!(Settings, on), &[0, 1]);
        judge.uses(offset_of!(Settings, limit), 4);
        judge.one_of(offset_of!(Settings, mode), &[1, 3]);
        judge.uses(offset_of!(Settings, id), 2);
        let flags = offset_of!(Settings, flags);
        for i in 0..judge.len(flags, 5) {
            judge.one_of(flags + 2 + i, &[0, 1]);
        }
        let name = offset_of!(Settings, name);
        let n = judge.len(name, 7);
        // A text has no padding: its other bytes are zeros because each change clears them.
        judge.uses(name + 2, 7);
        judge.valid &= str::from_utf8(&bytes[name + 2..name + 2 + n]).is_ok();
        judge.maybe(offset_of!(Settings, at));
        let steps = offset_of!(Settings, steps);
        for i in 0..judge.len(steps, 3) {
            judge.maybe(steps + 2 + 4 * i);
        }
        judge
    }
}

/// Bytes that are a value, of which a few are changed.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let small = || prop_oneof![4 => 0..8_u8, 1 => any::<u8>()];
    let change = (0..SIZE, small());
    let changes = prop::collection::vec(change, 0..4);
    (
        prop::collection::vec(small(), SIZE),
        any::<[u8; 3]>(),
        changes,
    )
        .prop_map(|(mut bytes, [flags, name, steps], changes)| {
            let mut put =
                |at: usize, values: &[u8]| bytes[at..][..values.len()].copy_from_slice(values);
            put(offset_of!(Settings, on), &[flags % 2]);
            put(
                offset_of!(Settings, mode),
                &[if name < 128 { 1 } else { 3 }],
            );
            put(
                offset_of!(Settings, flags),
                &u16::from(flags % 6).to_ne_bytes(),
            );
            put(
                offset_of!(Settings, flags) + 2,
                &[flags, name, steps, flags / 2, name / 2].map(|b| b % 2),
            );
            put(
                offset_of!(Settings, name),
                &u16::from(name % 8).to_ne_bytes(),
            );
            put(offset_of!(Settings, name) + 2, "häß12".as_bytes());
            put(offset_of!(Settings, at), &[steps % 2]);
            put(
                offset_of!(Settings, steps),
                &u16::from(steps % 4).to_ne_bytes(),
            );
            for i in 0..3 {
                put(offset_of!(Settings, steps) + 2 + 4 * i, &[steps >> i & 1]);
            }
            for (at, value) in changes {
                bytes[at] = value;
            }
            bytes
        })
}

/// Any bytes: the judge and the library agree on whether they are a value, and on its image.
#[test]
fn any_bytes_are_refused_or_have_one_image() {
    cases(400, bytes(), |bytes| {
        let judge = Judge::settings(bytes);
        match from_bytes::<Settings>(bytes) {
            Err(e) => assert!(!judge.valid, "{e:?}"),
            Ok(value) => {
                assert!(judge.valid, "{value:?}");
                let mut image = [MaybeUninit::new(0xA5); SIZE];
                assert_eq!(to_bytes(value, &mut image).unwrap(), judge.image);
            }
        }
    });
}

/// A library that keeps values in a region: they are written, changed in place, and read; the
/// region is closed and opened.
#[derive(Clone, Copy, Debug)]
enum Use {
    Write(u8, [u8; 4]),
    /// From here on it holds values of types that have padding.
    Mark,
    Clear,
    Split(u8),
    Tail(u8),
    Probe,
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let one = prop_oneof![
        4 => any::<(u8, [u8; 4])>().prop_map(|(at, bytes)| Use::Write(at, bytes)),
        2 => Just(Use::Mark),
        1 => Just(Use::Clear),
        2 => any::<u8>().prop_map(Use::Split),
        1 => any::<u8>().prop_map(Use::Tail),
        2 => Just(Use::Probe),
    ];
    prop::collection::vec(one, 1..12)
}

/// A region that holds values is not read as bytes until it was cleared.
fn region_of_values<M: Model>(uses: &[Use]) {
    let mut memory = [MaybeUninit::new(0u64); 20];
    let mut region = Region::<M>::new(&mut memory);
    let len = region.len();
    // Its bytes; none while it holds values.
    let mut bytes = Some(vec![0; len]);
    for one in uses {
        match *one {
            Use::Write(at, new) => {
                let at = usize::from(at) % (len - 3);
                let done = region.write(at as u32, &new);
                match &mut bytes {
                    Some(bytes) => {
                        done.unwrap();
                        bytes[at..at + 4].copy_from_slice(&new);
                    }
                    None => assert_eq!(done, Err(Misuse::HoldsValues)),
                }
            }
            Use::Mark => {
                region.mark_values();
                bytes = None;
            }
            Use::Clear => {
                region.clear();
                bytes = Some(vec![0; len]);
            }
            Use::Split(at) => {
                let at = usize::from(at) / 8 * 8 % len;
                region = match region.split_at(at) {
                    Ok((first, _)) => {
                        assert!(bytes.is_some() && first.len() == at);
                        return;
                    }
                    Err((e, region)) => {
                        assert!(bytes.is_none() && e == RegionError::HoldsValues, "{e:?}");
                        region
                    }
                };
            }
            Use::Tail(at) => {
                let at = usize::from(at) / 8 * 8 % len;
                // SAFETY: inside, and `region` is not used while the tail lives.
                let mut tail = unsafe { region.tail(at) };
                let done = tail.read(0, &mut [0]);
                assert_eq!(done.is_ok(), bytes.is_some());
            }
            Use::Probe => {
                let mine = Superblock {
                    kind: *b"TEST",
                    version: 1,
                    fingerprint: 2,
                    params: [3; 8],
                };
                let blank = bytes.as_ref().is_some_and(|b| b.iter().all(|b| *b == 0));
                let expected = if blank { State::Blank } else { State::Foreign };
                assert_eq!(superblock::probe(&region, &mine), expected);
            }
        }
        let mut found = vec![0xA5; len];
        let done = region.read(0, &mut found);
        assert_eq!(done.is_ok(), bytes.is_some());
        assert!(bytes.as_ref().is_none_or(|bytes| *bytes == found));
    }
}

#[test]
fn regions_of_values() {
    cases(40, uses(), |uses| {
        region_of_values::<InOrder16>(uses);
        region_of_values::<InOrder32>(uses);
        region_of_values::<Buffered32>(uses);
    });
}

/// Handles in all the places that a type may have.
#[derive(Persist)]
#[repr(C)]
struct Holder<'p> {
    first: Option<PBox<'p, u64>>,
    on: bool,
    rest: [Option<PBox<'p, u16>>; 2],
    maybe: Maybe<PBox<'p, u8>>,
    own: PBox<'p, u32>,
}

/// Notes each handle, and refuses those of this number and above.
struct Handles(Vec<(u32, usize)>, u32);

impl Visit for Handles {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        self.0.push((value, found.target.size));
        if value >= self.1 {
            return Err(Invalid::Handle(found.family));
        }
        Ok(())
    }
}

/// A check visits all handles that are there, in order, up to the first that is refused.
#[test]
fn handles_are_visited() {
    let numbers = prop::collection::vec(0..4_u32, 4);
    cases(
        40,
        (numbers, 1..4_u32, 2..5_u32),
        |(numbers, own, refused)| {
            let handle = |i: usize| (numbers[i] > 0).then(|| numbers[i]);
            let holder = Holder {
                first: handle(0).map(PBox::new),
                on: true,
                rest: [handle(1).map(PBox::new), handle(2).map(PBox::new)],
                maybe: handle(3).map(PBox::new).into(),
                own: PBox::new(*own),
            };
            let sizes = [8, 2, 2, 1];
            let there = (0..4).filter_map(|i| handle(i).map(|n| (n, sizes[i])));
            let mut expected: Vec<_> = there.chain([(*own, 4)]).collect();
            let first = expected.iter().position(|(n, _)| n >= refused);
            expected.truncate(first.map_or(expected.len(), |i| i + 1));
            let mut seen = Handles(Vec::new(), *refused);
            // SAFETY: a value.
            let valid = unsafe { Holder::check((&raw const holder).cast(), &mut seen) };
            assert_eq!((seen.0, valid.is_ok()), (expected, first.is_none()));
        },
    );
}
