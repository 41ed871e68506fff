//! What an interrupted program or erase leaves, and how unstable words read.
//!
//! ```text
//!  old  00 00 00 00   new  12 34 56 78
//!  torn, stable:    12 34 00 00 | 00 00 56 78 | zeros | ones | garbage
//!  torn, unstable:  two contents; each read returns one of them, as the boot's read policy says
//!                   (old, new) (old, half new) (half new, new) (old, garbage) (garbage, new)
//!  policies:        old | new | old, new, old, ... | new, old, ... | old once, new | new once, old
//! ```
//!
//! An unstable word stays unstable over boots until it is written again or erased.

use crate::hash::{Wide, item};
use std::sync::Arc;

/// What an interrupted program or erase may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tear {
    /// Any content, always read the same.
    Arbitrary,
    /// Any content, and reads may differ. With `any`, every bit may change, because check bits
    /// cover the word. Otherwise only the bits being programmed change.
    Unstable { erased: u8, any: bool },
    /// Nothing torn: the whole is old or new.
    Whole,
    /// An erase. It may be torn even if the unit was erased already.
    Erase(EraseTear),
}

impl Tear {
    pub(crate) fn is_erase(self) -> bool {
        matches!(self, Tear::Erase(_))
    }
}

/// What an interrupted erase may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraseTear {
    /// Any content, and reads may differ.
    Unstable,
    /// Any content, always read the same.
    Stable,
    /// Groups of this many bytes are old or erased; the erased ones come first.
    InOrder(u32),
}

/// A word or an erase unit that reads as one of two contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnstableWord {
    pub(crate) at: u32,
    /// The second content; the first is in the image.
    pub(crate) alt: Arc<[u8]>,
    hash: u128,
    /// How often each byte was read in this boot; empty before the first read.
    reads: Vec<u16>,
}

impl UnstableWord {
    pub(crate) fn new(at: u32, alt: &[u8]) -> Self {
        UnstableWord {
            at,
            hash: item(2, at, Wide::of(alt) as u64),
            alt: alt.into(),
            reads: Vec::new(),
        }
    }
    pub(crate) fn end(&self) -> u32 {
        self.at + self.alt.len() as u32
    }
}

/// A device's state beside its image: the unstable words, and how often each unit was erased. Wear
/// does not distinguish states: of all ways to a state, the wear of the first one found counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnstableWords(Vec<UnstableWord>, Vec<(u32, u32)>);

impl UnstableWords {
    pub(crate) fn add(&mut self, s: UnstableWord) {
        let i = self.0.partition_point(|o| o.at < s.at);
        self.0.insert(i, s);
    }

    /// Counts an erase of the unit at `at`. Returns how often it was erased.
    pub(crate) fn erased(&mut self, at: u32) -> u32 {
        match self.1.iter_mut().find(|w| w.0 == at) {
            Some(w) => {
                w.1 += 1;
                w.1
            }
            None => {
                self.1.push((at, 1));
                1
            }
        }
    }

    /// Makes a range stable. Returns whether anything in it was unstable.
    pub(crate) fn settle(&mut self, at: u32, len: u32) -> bool {
        let end = at + len;
        if !self.0.iter().any(|s| s.at < end && at < s.end()) {
            return false;
        }
        for s in std::mem::take(&mut self.0) {
            if s.at >= end || at >= s.end() {
                self.0.push(s);
                continue;
            }
            if s.at < at {
                self.0
                    .push(UnstableWord::new(s.at, &s.alt[..(at - s.at) as usize]));
            }
            if end < s.end() {
                self.0
                    .push(UnstableWord::new(end, &s.alt[(end - s.at) as usize..]));
            }
        }
        true
    }

    /// The second content of a range whose first content is `is`.
    pub(crate) fn alt(&self, at: u32, is: &[u8]) -> Vec<u8> {
        let mut out = is.to_vec();
        for s in &self.0 {
            for (i, b) in out.iter_mut().enumerate() {
                if let Some(k) = (at + i as u32).checked_sub(s.at)
                    && let Some(a) = s.alt.get(k as usize)
                {
                    *b = *a;
                }
            }
        }
        out
    }

    /// Reads a range into `buf`, which holds the first content. Returns whether any of it is
    /// unstable.
    pub(crate) fn read(&mut self, p: Policy, at: u32, buf: &mut [u8]) -> bool {
        let end = at + buf.len() as u32;
        let mut hit = false;
        for s in &mut self.0 {
            if s.at < end && at < s.end() && s.reads.is_empty() {
                s.reads = vec![0; s.alt.len()];
            }
            for u in at.max(s.at)..end.min(s.end()) {
                let k = (u - s.at) as usize;
                if p.other(s.reads[k]) {
                    buf[(u - at) as usize] = s.alt[k];
                }
                s.reads[k] = s.reads[k].saturating_add(1);
                hit = true;
            }
        }
        hit
    }

    pub(crate) fn hash(&self) -> u128 {
        self.0.iter().fold(0, |h, s| h ^ s.hash)
    }
}

/// How unstable words read during one boot: an index of six policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policy(pub(crate) u8);

impl Policy {
    pub(crate) const ALL: u8 = 6;

    /// Whether the `n`-th read of a byte returns the second content.
    pub(crate) fn other(self, n: u16) -> bool {
        match self.0 {
            0 => false,
            1 => true,
            2 => n % 2 == 1,
            3 => n.is_multiple_of(2),
            4 => n > 0,
            _ => n == 0,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        [
            "old",
            "new",
            "old, new, old, …",
            "new, old, new, …",
            "old once, then new",
            "new once, then old",
        ][usize::from(self.0)]
    }
}

/// A torn word's content, and its second content if it is unstable.
pub(crate) struct Torn {
    pub(crate) name: &'static str,
    pub(crate) is: Vec<u8>,
    pub(crate) alt: Option<Vec<u8>>,
}

fn half(a: &[u8], b: &[u8]) -> Vec<u8> {
    if let [a] = a {
        return vec![a & 0x0f | b[0] & 0xf0];
    }
    let n = a.len() / 2;
    [&a[..n], &b[n..]].concat()
}

fn garbage(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut x = 0x9e37_79b9_u32;
    old.iter()
        .zip(new)
        .map(|(o, n)| {
            x = (x ^ u32::from(*o) << 8 ^ u32::from(*n)).wrapping_mul(0x85eb_ca6b) ^ x >> 13;
            (x >> 24) as u8
        })
        .collect()
}

/// Lengths of an erased first part: one group, about half of all, all but the last group.
fn prefixes(len: usize, group: u32) -> impl Iterator<Item = usize> {
    let group = group as usize;
    let last = len.saturating_sub(1) / group * group;
    let mut cuts = vec![group, len / 2 / group * group, last];
    cuts.retain(|n| (1..len).contains(n));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.into_iter()
}

/// All torn contents that are tried.
pub(crate) fn ways(old: &[u8], new: &[u8], how: Tear) -> Vec<Torn> {
    let t = |name, is: Vec<u8>, alt| Torn { name, is, alt };
    let (front, back) = (half(new, old), half(old, new));
    match how {
        Tear::Whole => Vec::new(),
        Tear::Erase(EraseTear::InOrder(group)) => prefixes(new.len(), group)
            .map(|n| t("a first part erased", [&new[..n], &old[n..]].concat(), None))
            .collect(),
        Tear::Arbitrary | Tear::Erase(EraseTear::Stable) => vec![
            t("first half new", front, None),
            t("second half new", back, None),
            t("zeros", vec![0; old.len()], None),
            t("ones", vec![0xff; old.len()], None),
            t("garbage", garbage(old, new), None),
        ],
        // Programming a word to its old content does not disturb it.
        Tear::Unstable { .. } if old == new => Vec::new(),
        Tear::Unstable { .. } | Tear::Erase(EraseTear::Unstable) => {
            let mut has_garbage = garbage(old, new);
            if let Tear::Unstable { any: false, .. } = how {
                for (w, (o, n)) in has_garbage.iter_mut().zip(old.iter().zip(new)) {
                    *w = o & *w | n & !*w | o & n;
                }
            }
            vec![
                t("old or new", old.to_vec(), Some(new.to_vec())),
                t("old or half new", old.to_vec(), Some(front)),
                t("half new or new", back, Some(new.to_vec())),
                t("old or garbage", old.to_vec(), Some(has_garbage.clone())),
                t("garbage or new", has_garbage, Some(new.to_vec())),
            ]
        }
    }
}

/// The content after programming: bits change in one direction only.
pub(crate) fn program(is: &[u8], new: &[u8], erased: u8) -> Vec<u8> {
    let towards_zero = erased & 0x80 != 0;
    is.iter()
        .zip(new)
        .map(|(a, b)| if towards_zero { a & b } else { a | b })
        .collect()
}
