//! What `room` says, against the sums that it stands for.

use super::log::Log;
use super::shape::{COPIES, NONE, Shape};
use super::table::Table;
use crate::device::Medium;
use crate::ram::RamNor;

type Flash = RamNor<24, 128, 4>;

/// A log of these blocks, the oldest first, each with so many live pages; of the newest one so many slots are used, if it is open.
fn with_log<R>(live: &[u32], cut: Option<u16>, f: impl FnOnce(&Log<'_, Flash>) -> R) -> R {
    let shape = Shape::of(&Flash::CONTRACT, 8, 24 * 128);
    let mut buffer = vec![0; shape.entries() as usize];
    let mut table = Table::new(&shape, &mut buffer).unwrap();
    let mut page = 0;
    for (block, n) in live.iter().enumerate() {
        let next = if block + 1 < live.len() {
            block as u16 + 1
        } else {
            NONE
        };
        table.link(block as u16, next);
        for slot in 0..*n as u16 {
            table.set(page, (block as u32 * shape.slots) as u16 + slot);
            page += 1;
        }
    }
    let newest = live.len() as u16 - 1;
    let log = Log {
        medium: Flash::new(),
        shape,
        table,
        newest,
        newest_sequence: 1,
        cut: cut.unwrap_or(shape.slots as u16),
        open: cut.is_some(),
        tail: 0,
        oldest: 0,
        used: live.len() as u16,
        sequence: 1,
        avoid: NONE,
        cursor: 0,
        stale: false,
        look_only: false,
    };
    f(&log)
}

/// For each `i`: when the first `i` blocks are clean, their `n` live pages were copied and `n / COPIES` others written, into what was free and the
/// `i - 1` blocks that were cleaned before; but for the floor and `extra` slots. An open block is written to, and not cleaned.
fn sums_are_kept(s: &Shape, live: &[u32], cut: Option<u16>, extra: u32) -> bool {
    let rest = cut.map_or(0, |cut| s.slots as i64 - i64::from(cut));
    let free = (i64::from(s.blocks) - live.len() as i64) * i64::from(s.slots) + rest;
    let have = |i: i64| free + (i - 1) * i64::from(s.slots) - i64::from(s.floor() + extra);
    let cleaned = live.len() - usize::from(cut.is_some());
    let copies = i64::from(COPIES);
    let each = (1..=cleaned).all(|i| {
        let n: i64 = live[..i].iter().map(|n| i64::from(*n)).sum();
        copies * have(i as i64) >= (copies + 1) * n
    });
    // What is free at the end is not less than nothing, also when there is nothing to clean.
    each && (cut.is_none() || have(cleaned as i64 + 1) >= 0)
}

#[test]
fn room_is_what_the_sums_say() {
    let shape = Shape::of(&Flash::CONTRACT, 8, 24 * 128);
    let (mut x, mut kept, mut edges) = (1u32, 0, 0);
    let mut random = |below: u32| {
        x = x.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
        (x >> 8) % below
    };
    for _ in 0..if cfg!(miri) { 20 } else { 40_000 } {
        let blocks = 1 + random(shape.blocks - 1);
        let mut live: Vec<u32> = (0..blocks).map(|_| random(shape.slots + 1)).collect();
        let cut = (random(3) > 0).then(|| random(shape.slots + 1) as u16);
        if let (Some(cut), Some(last)) = (cut, live.last_mut()) {
            *last = (*last).min(u32::from(cut));
        }
        if live.iter().sum::<u32>() > shape.pages {
            continue;
        }
        with_log(&live, cut, |log| {
            for extra in 0..3 {
                let sums = sums_are_kept(&shape, &live, cut, extra);
                assert_eq!(log.room(extra), sums, "{live:?}, {cut:?}, {extra}");
                kept += u32::from(sums);
                edges += u32::from(sums && !sums_are_kept(&shape, &live, cut, extra + 1));
            }
        });
    }
    assert!(cfg!(miri) || kept > 1000 && edges > 100, "{kept}, {edges}");
}
