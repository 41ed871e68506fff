//! All chains of cuts against the choice of the next segment.
//!
//! A state says of each segment how far its writing got for sure, whether the next word of it was
//! cut, and whether its erase was cut. At each boot the segments read in all ways that this
//! permits. Each boot does what [`Log`] says and is cut at each place, or completes a segment.

use super::*;
use std::collections::HashMap;
use std::vec::Vec;

/// A segment on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Segment {
    number: u32,
    /// The order in which segments were truly begun.
    age: u32,
    /// The level that is certain; after a cut erase, the highest that may be read.
    level: u8,
    /// The program of the next marker word was cut.
    torn: bool,
    /// Its erase was cut: any level up to `level` may be read.
    erasing: bool,
}

const BLANK: Segment = Segment {
    number: 0,
    age: 0,
    level: UNREADABLE,
    torn: false,
    erasing: false,
};

impl Segment {
    fn reads(self) -> Vec<u8> {
        match self {
            Segment { erasing: true, .. } => (UNREADABLE..=self.level).collect(),
            Segment { torn: true, .. } => std::vec![self.level, self.level + 1],
            _ => std::vec![self.level],
        }
    }

    fn highest(self) -> u8 {
        self.level + u8::from(self.torn)
    }

    fn erase_cut(self) -> Segment {
        match self.highest() {
            UNREADABLE => BLANK,
            level => Segment {
                level,
                torn: false,
                erasing: true,
                ..self
            },
        }
    }
}

/// The segments, and the age of the durable one.
type State = (Vec<Segment>, u32);

/// With small numbers and ages, in an order that does not matter.
fn normal(segments: &[Segment], durable: u32) -> State {
    let written = || segments.iter().filter(|s| s.highest() > UNREADABLE);
    let least = written().map(|s| s.number).min().unwrap_or(1);
    let mut ages: Vec<u32> = written().map(|s| s.age).chain([durable]).collect();
    ages.sort_unstable();
    ages.dedup();
    let rank = |n: u32| ages.iter().position(|m| *m == n).unwrap() as u32 + 1;
    let mut segments: Vec<Segment> = segments
        .iter()
        .map(|s| match s.highest() {
            UNREADABLE => BLANK,
            _ => Segment {
                number: s.number - least + 1,
                age: rank(s.age),
                ..*s
            },
        })
        .collect();
    segments.sort_unstable();
    (segments, rank(durable))
}

/// Whether each boot finds the durable segment or a newer one.
fn is_safe((segments, durable): &State) -> bool {
    segments
        .iter()
        .any(|s| s.age >= *durable && !s.erasing && s.level >= MARKED)
}

/// Begins a segment as `Mirror::begin` does; `out` gets the states that cuts leave.
fn begin(log: &mut Log, now: &mut [Segment], durable: u32, out: &mut Vec<State>) -> u32 {
    let target = log.target();
    let age = now.iter().map(|s| s.age).max().unwrap().max(durable) + 1;
    for s in 0..log.count {
        if log.is_erased_before(s, target) {
            let mut cut = now.to_vec();
            cut[usize::from(s)] = cut[usize::from(s)].erase_cut();
            out.push(normal(&cut, durable));
            now[usize::from(s)] = BLANK;
            log.set_level(s, ERASED);
        }
    }
    let number = log.next_number().wrapping_sub(WRAP);
    let mut new = Segment {
        number,
        age,
        ..BLANK
    };
    for level in UNREADABLE..CONFIRMED {
        new.level = level;
        new.torn = true;
        now[usize::from(target)] = new;
        out.push(normal(now, durable));
    }
    (new.level, new.torn) = (CONFIRMED, false);
    now[usize::from(target)] = new;
    log.set(target, CONFIRMED, number.wrapping_add(WRAP));
    age
}

/// Numbers on the medium wrap in the middle of a chain.
const WRAP: u32 = u32::MAX - 3;

/// The states after one boot, and whether it found what is durable.
fn boot((segments, durable): &State, cut: &mut Vec<State>, saved: &mut Vec<State>) -> bool {
    let count = segments.len() as u8;
    let mut readings: Vec<Vec<u8>> = std::vec![Vec::new()];
    for s in segments {
        let longer = |r: &Vec<u8>| {
            s.reads()
                .into_iter()
                .map(|l| [r.as_slice(), &[l]].concat())
                .collect::<Vec<_>>()
        };
        readings = readings.iter().flat_map(longer).collect();
    }
    for reading in readings {
        let mut log = Log::new(0, 1, count);
        for (s, level) in reading.iter().enumerate() {
            if *level > UNREADABLE {
                log.set(s as u8, *level, segments[s].number.wrapping_add(WRAP));
            }
        }
        match log.newest(MARKED) {
            Some(s) if segments[usize::from(s)].age >= *durable => {}
            _ => return false,
        }
        let mut now = segments.clone();
        let mut durable = *durable;
        for _ in 0..=count {
            durable = begin(&mut log, &mut now, durable, cut);
            saved.push(normal(&now, durable));
        }
    }
    true
}

/// The fewest cuts in a row, without a completed save between them, that lose what is durable;
/// `None` if `most` do not. Before them are any chains of fewer cuts, each ended by a save.
fn cuts_to_a_loss(count: u8, most: u32) -> Option<u32> {
    let mut first = std::vec![BLANK; usize::from(count)];
    first[0] = Segment {
        number: 1,
        age: 1,
        level: CONFIRMED,
        ..BLANK
    };
    // The fewest cuts since the last save.
    let mut cuts = HashMap::from([(normal(&first, 1), 0)]);
    let mut todo: Vec<State> = cuts.keys().cloned().collect();
    let mut loss = None;
    while let Some(state) = todo.pop() {
        let n = cuts[&state];
        if n == most {
            continue;
        }
        let (mut cut, mut saved) = (Vec::new(), Vec::new());
        if !boot(&state, &mut cut, &mut saved) {
            loss = Some(loss.map_or(n, |l: u32| l.min(n)));
        }
        let cut = cut.into_iter().map(|s| (s, n + 1));
        for (s, n) in cut.chain(saved.into_iter().map(|s| (s, 0))) {
            if !is_safe(&s) {
                loss = Some(loss.map_or(n, |l: u32| l.min(n)));
            } else if cuts.get(&s).is_none_or(|old| *old > n) {
                cuts.insert(s.clone(), n);
                todo.push(s);
            }
        }
    }
    loss
}

#[test]
#[cfg_attr(miri, ignore = "thousands of states")]
fn a_chain_of_cuts_loses_nothing() {
    // The bound is exact. Two segments are too few: flash has at least three.
    for (segments, loss) in [(2, 3), (3, 5), (4, 7)] {
        assert_eq!(cuts_to_a_loss(segments, loss - 1), None, "{segments}");
        assert_eq!(cuts_to_a_loss(segments, loss), Some(loss), "{segments}");
    }
}
