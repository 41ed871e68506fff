//! Compares `has_room` with the sums that it computes step by step.

use super::geometry::{COPIES, Geometry, NONE};
use super::table::Table;
use crate::blocking::log::Log;
use crate::device::Medium;
use crate::ram::RamNor;

type Flash = RamNor<24, 128, 4>;

/// Builds a log of blocks with these numbers of live pages, the oldest first. `valid_slots` of the
/// newest block are used; `None` if it is not open.
fn with_log<R>(
    live: &[u32],
    valid_slots: Option<u16>,
    f: impl FnOnce(&Log<'_, Flash, 8>) -> R,
) -> R {
    let geometry = Geometry::of(&Flash::CONTRACT, 8, 24 * 128);
    let mut buffer = vec![0; geometry.entries() as usize];
    let mut table = Table::new(&geometry, &mut buffer).unwrap();
    let mut page = 0;
    for (block, n) in live.iter().enumerate() {
        let next = if block + 1 < live.len() {
            block as u16 + 1
        } else {
            NONE
        };
        table.link(block as u16, next);
        for slot in 0..*n as u16 {
            table.set(page, (block as u32 * geometry.slots) as u16 + slot);
            page += 1;
        }
    }
    let newest = live.len() as u16 - 1;
    let log = Log {
        medium: Flash::new(),
        blocks: geometry.blocks,
        pages: geometry.pages,
        table,
        newest,
        newest_sequence: 1,
        valid_slots: valid_slots.unwrap_or(geometry.slots as u16),
        open: valid_slots.is_some(),
        tail: 0,
        oldest: 0,
        used: live.len() as u16,
        sequence: 1,
        must_not_erase: NONE,
        cursor: 0,
        stale: false,
        read_only: false,
        other: (0, [0; 3]),
    };
    f(&log)
}

/// For each `i`: when the first `i` blocks are clean, their `n` live pages were copied and
/// `n / COPIES` others written. They must fit into the space that was free and the `i - 1` blocks
/// cleaned before, without the reserve and `extra` slots. An open block is appended to and not
/// cleaned.
fn sums_hold(s: &Geometry, live: &[u32], valid_slots: Option<u16>, extra: u32) -> bool {
    let rest = valid_slots.map_or(0, |valid_slots| s.slots as i64 - i64::from(valid_slots));
    let free = (i64::from(s.blocks) - live.len() as i64) * i64::from(s.slots) + rest;
    let have = |i: i64| free + (i - 1) * i64::from(s.slots) - i64::from(s.reserve() + extra);
    let cleaned = live.len() - usize::from(valid_slots.is_some());
    let copies = i64::from(COPIES);
    let each = (1..=cleaned).all(|i| {
        let n: i64 = live[..i].iter().map(|n| i64::from(*n)).sum();
        copies * have(i as i64) >= (copies + 1) * n
    });
    // The free space at the end is not negative, even if there is nothing to clean.
    each && (valid_slots.is_none() || have(cleaned as i64 + 1) >= 0)
}

#[test]
fn has_room_equals_the_sums() {
    let geometry = Geometry::of(&Flash::CONTRACT, 8, 24 * 128);
    let (mut kept, mut edges) = (0, 0);
    let mut rng = powerfail::Rng::new(1);
    let mut random = |below: u32| rng.below(below.into()) as u32;
    for _ in 0..if cfg!(miri) { 20 } else { 40_000 } {
        let blocks = 1 + random(geometry.blocks - 1);
        let mut live: Vec<u32> = (0..blocks).map(|_| random(geometry.slots + 1)).collect();
        let valid_slots = (random(3) > 0).then(|| random(geometry.slots + 1) as u16);
        if let (Some(valid_slots), Some(last)) = (valid_slots, live.last_mut()) {
            *last = (*last).min(u32::from(valid_slots));
        }
        if live.iter().sum::<u32>() > geometry.pages {
            continue;
        }
        with_log(&live, valid_slots, |log| {
            for extra in 0..3 {
                let sums = sums_hold(&geometry, &live, valid_slots, extra);
                assert_eq!(
                    log.has_room(extra),
                    sums,
                    "{live:?}, {valid_slots:?}, {extra}"
                );
                kept += u32::from(sums);
                edges += u32::from(sums && !sums_hold(&geometry, &live, valid_slots, extra + 1));
            }
        });
    }
    assert!(cfg!(miri) || kept > 1000 && edges > 100, "{kept}, {edges}");
}
