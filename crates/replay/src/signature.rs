//! Call signatures: what is compared when a call is replayed.
//!
//! ```text
//! rt.named("sample").step((hour, celsius), |tx, log, (hour, celsius)| …) -> u32
//!     |              |     |                                                |
//!     name           kind  types of the arguments                           type of the result
//!     '--------------+-----'------------------------------------------------'
//!                    v                         values of the arguments, handles
//!            call hash: a constant                        |
//!                    |                                    v
//!                    '---------------> id <------ arguments' hash
//! ```
//!
//! Nothing here depends on where a call is in the source, or on what the compiler makes of it. So
//! added lines, another formatting, another compiler and other optimisations change no id. Types
//! are compared by their layout fingerprints; a type that is only `serde` is compared by its name.
//!
//! Two calls of one kind, of equal types and without a name are told apart by their arguments
//! alone. A replay does not notice if an update of a device in the field swaps them: such calls
//! need names. With the feature `instrument` the runtime reports them (`Twins`).

#[cfg(feature = "instrument")]
use core::panic::Location;
use nvmem::cross::{Arg, Repeat, Ret, Share};
use nvmem::planted;

/// A hash over words. Good enough to tell calls apart, and cheap on cores without a multiplier.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u32);

impl Hash {
    pub const fn new() -> Self {
        Hash(0)
    }
    #[inline(always)]
    pub const fn word(self, w: u32) -> Self {
        Hash((self.0.rotate_left(5) ^ w).wrapping_mul(0x9e37_79b1))
    }
    #[inline(always)]
    pub const fn long(self, w: u64) -> Self {
        self.word(w as u32).word((w >> 32) as u32)
    }
    #[inline]
    pub fn bytes(mut self, b: &[u8]) -> Self {
        let (words, remaining) = b.as_chunks::<4>();
        for w in words {
            self = self.word(u32::from_le_bytes(*w));
        }
        for b in remaining {
            self = self.word(u32::from(*b));
        }
        self
    }
    /// Mixes the upper bits, which vary most, into the lower ones.
    #[inline(always)]
    pub const fn finish(self) -> u32 {
        self.0 ^ self.0 >> 15
    }
}

/// The name of a call, for [`Replay::named`](crate::Replay::named): a text or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(u32);

/// The number of bytes at the end of a name that are hashed.
const TAIL: usize = 32;

impl Name {
    /// No name.
    pub(crate) const NONE: Name = Name(0);

    /// The name of this text. Its length and its last 32 bytes count.
    ///
    /// Without a loop: where the call is inlined, the compiler evaluates the hash to a constant.
    #[inline(always)]
    pub const fn new(text: &str) -> Name {
        macro_rules! feed {
            ($h:ident, $b:ident: $($i:literal)*) => {
                $($h = $h.word(u32::from_le_bytes([$b[$i], $b[$i + 1], $b[$i + 2], $b[$i + 3]]));)*
            };
        }
        let mut remaining = text.as_bytes();
        let mut h = Hash::new().word(remaining.len() as u32);
        if let Some(b) = remaining.last_chunk::<TAIL>() {
            feed!(h, b: 0 4 8 12 16 20 24 28);
            return Name(h.finish());
        }
        if let Some((before, b)) = remaining.split_last_chunk::<16>() {
            feed!(h, b: 0 4 8 12);
            remaining = before;
        }
        if let Some((before, b)) = remaining.split_last_chunk::<8>() {
            feed!(h, b: 0 4);
            remaining = before;
        }
        if let Some((before, b)) = remaining.split_last_chunk::<4>() {
            feed!(h, b: 0);
            remaining = before;
        }
        if let Some((before, b)) = remaining.split_last_chunk::<2>() {
            h = h.word(u16::from_le_bytes(*b) as u32);
            remaining = before;
        }
        if let [b] = remaining {
            h = h.word(*b as u32);
        }
        Name(h.finish())
    }

    /// The name that is this number.
    #[inline(always)]
    pub const fn number(n: u32) -> Name {
        Name(Hash::new().word(n).finish())
    }
}

impl From<&str> for Name {
    #[inline(always)]
    fn from(text: &str) -> Name {
        Name::new(text)
    }
}

impl From<u32> for Name {
    #[inline(always)]
    fn from(n: u32) -> Name {
        Name::number(n)
    }
}

/// A number for [`Options::version`](crate::Options::version) from the names of a program's steps,
/// in their order. It changes when a step is added, removed, renamed or moved. When a step does
/// something else from now on, give it another name, for example `"sample 2"`.
///
/// ```
/// const VERSION: u16 = nv_replay::version(&["sample", "send"]);
/// assert_ne!(VERSION, nv_replay::version(&["send", "sample"]));
/// ```
///
/// **Cost**: none in a constant. Two lists have the same number once in 65,536.
pub const fn version(steps: &[&str]) -> u16 {
    let (mut h, mut i) = (Hash::new(), 0);
    while i < steps.len() {
        h = h.word(Name::new(steps[i]).0);
        i += 1;
    }
    let h = h.finish();
    (h ^ h >> 16) as u16
}

/// The kinds of calls. The numbers are part of the format.
pub(crate) mod kind {
    pub const STEP: u32 = 1;
    pub const INPUT: u32 = 2;
    pub const JOINED: u32 = 3;
    pub const LOOP: u32 = 4;
    pub const ENDLESS: u32 = 5;
    /// A loop of one step.
    pub const EACH_STEP: u32 = 6;
    pub const ENDLESS_STEP: u32 = 7;
    /// Added to the kind of a call that has a token.
    pub const TOKEN: u32 = 8;
}

/// The hash of a call's kind, types and name. A constant where the name is one, except for a
/// result without a layout.
#[inline(always)]
pub(crate) fn call_hash<A: Arg, O: Ret>(kind: u32, name: Name) -> u32 {
    let mut h = typed(kind, A::TYPE, O::TYPE);
    if let Some(name) = O::type_name() {
        h = h.bytes(name.as_bytes());
    }
    named(h, name)
}

/// The hash of the kind of a loop of one step, the types of its arguments and its name.
#[inline(always)]
pub(crate) fn step_loop_hash<A: Repeat>(mut kind: u32, name: Name) -> u32 {
    if planted!("nv-replay/step-loop-as-loop") {
        kind = kind::LOOP;
    }
    named(typed(kind, A::TYPE, 0), name)
}

/// The hash of a loop's kind, the types of its arguments and its name.
#[inline(always)]
pub(crate) fn loop_hash<S: Share>(kind: u32, name: Name) -> u32 {
    named(typed(kind, S::TYPE, 0), name)
}

#[inline(always)]
fn typed(mut kind: u32, mut args: u64, mut result: u64) -> Hash {
    if planted!("nv-replay/kind-not-compared") {
        kind = 0;
    }
    if planted!("nv-replay/types-not-compared") {
        (args, result) = (0, 0);
    }
    Hash::new().word(kind).long(args).long(result)
}

#[inline(always)]
fn named(h: Hash, mut name: Name) -> u32 {
    if planted!("nv-replay/name-not-compared") {
        name = Name::NONE;
    }
    h.word(name.0).finish()
}

/// The hash of a call's arguments; 0 for none.
#[inline]
pub(crate) fn args_hash<A: Arg>(a: &A) -> u32 {
    with_args(Hash::new(), a)
}

#[inline(always)]
fn with_args<A: Arg>(mut h: Hash, a: &A) -> u32 {
    a.handles(&mut |o| h = h.word(o));
    a.bytes(&mut |b| h = h.bytes(b));
    h.finish()
}

/// The hash of a loop's range and arguments.
#[inline]
pub(crate) fn loop_args_hash<S: Share>(a: &S, from: u32, to: u32) -> u32 {
    let mut h = Hash::new().word(from).word(to);
    a.handles(&mut |o| h = h.word(o));
    a.bytes(&mut |b| h = h.bytes(b));
    h.finish()
}

/// The hash of the range and the arguments of a loop of one step.
#[inline]
pub(crate) fn step_loop_args_hash<A: Repeat>(a: &A, from: u32, to: u32) -> u32 {
    with_args(Hash::new().word(from).word(to), a)
}

/// Two calls without a name that only their arguments tell apart.
#[cfg(feature = "instrument")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Twin {
    /// Where the first call is.
    pub first: &'static Location<'static>,
    /// Where the second call is.
    pub second: &'static Location<'static>,
}

/// Finds [`Twin`]s. Nothing at all without the feature `instrument`.
pub(crate) struct Twins {
    /// The hash and the place of each call without a name.
    #[cfg(feature = "instrument")]
    calls: std::vec::Vec<(u32, &'static Location<'static>)>,
    #[cfg(feature = "instrument")]
    pairs: std::vec::Vec<Twin>,
}

#[cfg(not(feature = "instrument"))]
impl Twins {
    #[inline(always)]
    pub fn new() -> Self {
        Twins {}
    }
    /// A call without a name, of this call hash.
    #[inline(always)]
    pub fn note(&mut self, _: u32) {}
}

#[cfg(feature = "instrument")]
impl Twins {
    pub fn new() -> Self {
        Twins {
            calls: std::vec::Vec::new(),
            pairs: std::vec::Vec::new(),
        }
    }

    /// A call without a name, of this call hash, in the place of the caller.
    #[track_caller]
    pub fn note(&mut self, hash: u32) {
        static PRINTED: std::sync::Mutex<std::vec::Vec<Twin>> =
            std::sync::Mutex::new(std::vec::Vec::new());
        let second = Location::caller();
        if self.calls.contains(&(hash, second)) {
            return;
        }
        let same = self.calls.iter().rfind(|(other, _)| *other == hash);
        let first = same.map(|(_, first)| *first);
        self.calls.push((hash, second));
        let Some(first) = first else { return };
        let twin = Twin { first, second };
        self.pairs.push(twin);
        let mut printed = PRINTED.lock().unwrap_or_else(|e| e.into_inner());
        if !printed.contains(&twin) {
            printed.push(twin);
            std::eprintln!(
                "nv-replay: only their arguments tell these calls apart, give them names: \
                 {first} and {second}"
            );
        }
    }

    pub fn pairs(&self) -> &[Twin] {
        &self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    /// The 17 bits of a call hash that a 32-bit header holds.
    fn bits(kind: u32, name: Name) -> u32 {
        call_hash::<(u32, u16), u8>(kind, name) & 0x1_ffff
    }

    #[test]
    fn every_byte_of_a_name_that_counts_counts() {
        let text = "the valve at the end of the second pipe";
        for from in 0..text.len() {
            let text = &text[from..];
            for i in 0..text.len() {
                let mut other = String::from(text).into_bytes();
                other[i] ^= 1;
                let other = String::from_utf8(other).unwrap();
                let counts = text.len() - i <= TAIL;
                let differ = bits(1, Name::new(text)) != bits(1, Name::new(&other));
                assert_eq!(differ, counts, "{from} {i}");
            }
            assert_ne!(bits(1, Name::new(text)), bits(1, Name::new(&text[1..])));
        }
    }

    /// The names of a large program collide no more often than chance has it.
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and much of it")]
    fn names_spread() {
        let mut seen = std::collections::BTreeMap::new();
        for n in 0..1500 {
            *seen.entry(bits(1, Name::number(n))).or_insert(0) += 1;
            let text = std::format!("step {n}");
            *seen.entry(bits(1, Name::new(&text))).or_insert(0) += 1;
        }
        // 3,000 names and 131,072 values: chance gives 34 pairs.
        let pairs: i32 = seen.values().map(|n| n * (n - 1) / 2).sum();
        assert!(pairs < 68, "{pairs}");
    }

    #[test]
    fn kinds_and_types_differ() {
        let all = [
            call_hash::<(), ()>(kind::STEP, Name::NONE),
            call_hash::<(), ()>(kind::INPUT, Name::NONE),
            call_hash::<(), ()>(kind::JOINED, Name::NONE),
            call_hash::<u32, ()>(kind::STEP, Name::NONE),
            call_hash::<(), u32>(kind::STEP, Name::NONE),
            call_hash::<(), i32>(kind::STEP, Name::NONE),
            call_hash::<(), (u32,)>(kind::STEP, Name::NONE),
            call_hash::<(u8, u32), ()>(kind::STEP, Name::NONE),
            call_hash::<(u32, u8), ()>(kind::STEP, Name::NONE),
            loop_hash::<()>(kind::LOOP, Name::NONE),
            loop_hash::<()>(kind::ENDLESS, Name::NONE),
            loop_hash::<u32>(kind::LOOP, Name::NONE),
            step_loop_hash::<()>(kind::EACH_STEP, Name::NONE),
            step_loop_hash::<()>(kind::ENDLESS_STEP, Name::NONE),
            step_loop_hash::<u32>(kind::EACH_STEP, Name::NONE),
            call_hash::<(), ()>(kind::TOKEN | kind::STEP, Name::NONE),
            step_loop_hash::<()>(kind::TOKEN | kind::EACH_STEP, Name::NONE),
            step_loop_hash::<()>(kind::TOKEN | kind::ENDLESS_STEP, Name::NONE),
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(a & 0xff, b & 0xff, "8 bits differ, on 16-bit units too");
            }
        }
    }

    /// The hash is part of the format: devices hold these values.
    #[test]
    fn the_hash_is_part_of_the_format() {
        let long = Name::new("the valve at the end of the second pipe");
        let names = [Name::new("sample"), long, Name::number(7)];
        assert_eq!(names.map(|n| n.0), [3913060736, 961810751, 1401222367]);
        let plain = call_hash::<(u32, u16), u8>(kind::STEP, Name::NONE);
        let looped = loop_hash::<u32>(kind::LOOP, names[0]);
        let version = version(&["sample", "send"]);
        assert_eq!((plain, looped, version), (749436455, 1831044034, 42601));
    }
}
