// Changes that are made to a sound image before it is opened.

use pmem_tx::nvmem::{Superblock, Unit};

const UNIT: usize = <W as Unit>::BYTES;
const WORDS: usize = 112;

fn bytes(m: &mut Words) -> &mut [u8] {
    // SAFETY: initialised when made, and media are stored to in whole units; no padding is left in
    // between, because values are written whole with their padding cleared or copied from such.
    unsafe { core::slice::from_raw_parts_mut(m.as_mut_ptr().cast(), m.len() * 8) }
}

struct Random(powerfail::Rng);
impl Random {
    fn new(seed: u64) -> Self {
        Random(powerfail::Rng::new(seed))
    }
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }
}

/// Runs `change` on copies of both images until it returns that it is done; returns how many opened
/// and how many did not.
fn campaign(step: usize, mut change: impl FnMut(usize, &mut [u8]) -> bool) -> [usize; 2] {
    let mut seen = [0; 2];
    for doubt in [false, true] {
        let original = image(WORDS, doubt);
        assert!(attack(&mut original.clone()), "the image is sound");
        let mut i = 0;
        loop {
            let mut m = original.clone();
            // Miri runs only a few.
            let enough = cfg!(miri) && seen[0] + seen[1] >= 2 * (doubt as usize + 1);
            if enough || !change(i, bytes(&mut m)) {
                break;
            }
            seen[attack(&mut m) as usize] += 1;
            i += if cfg!(miri) { step } else { 1 };
        }
    }
    seen
}

fn both(seen: [usize; 2]) {
    assert!(
        cfg!(miri) || seen[0] > 0 && seen[1] > 0,
        "refused {}, opened {}",
        seen[0],
        seen[1]
    );
}

#[test]
fn every_unit_by_interesting_values() {
    let mut values: Vec<u32> = vec![
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        0x7f,
        0x80,
        0xff,
        0x100,
        0xfff8,
        0xffff,
        u32::MAX,
        1 << 31,
    ];
    // Copies of words inside the image: each handle in place of each other one, headers in place of
    // tags.
    let mut m = image(WORDS, true);
    for u in bytes(&mut m).chunks_exact(UNIT) {
        let mut le = [0; 4];
        le[..UNIT].copy_from_slice(u);
        values.push(u32::from_le_bytes(le));
    }
    values.sort_unstable();
    values.dedup();
    both(campaign(4001, |i, b| {
        let (at, v) = (i / values.len() * UNIT, values[i % values.len()]);
        if at >= b.len() {
            return false;
        }
        b[at..at + UNIT].copy_from_slice(&v.to_le_bytes()[..UNIT]);
        true
    }))
}

#[test]
fn every_bit() {
    both(campaign(1009, |i, b| {
        if i >= b.len() * 8 {
            return false;
        }
        b[i / 8] ^= 1 << (i % 8);
        true
    }))
}

#[test]
fn noise_behind_a_sound_superblock() {
    let mut r = Random::new(1);
    let seen = campaign(400, |i, b| {
        let (from, to) = (r.below(b.len() - 128) + 128, r.below(b.len() - 128) + 128);
        let (from, to) = if i % 4 == 0 {
            (128, b.len())
        } else {
            (from.min(to), from.max(to))
        };
        let units: Vec<[u8; UNIT]> = b
            .chunks_exact(UNIT)
            .map(|u| u.try_into().unwrap())
            .collect();
        for u in b[from & !(UNIT - 1)..to & !(UNIT - 1)].chunks_exact_mut(UNIT) {
            match r.below(4) {
                0 => u.fill_with(|| r.below(256) as u8),
                1 => u.fill(0),
                // Valid words at a wrong offset.
                _ => u.copy_from_slice(&units[r.below(units.len())]),
            }
        }
        i < 4000
    });
    assert!(cfg!(miri) || seen[0] > 0);
}

#[test]
fn several_units_at_once() {
    let mut r = Random::new(2);
    both(campaign(400, |i, b| {
        for _ in 0..2 + r.below(3) {
            let (to, from) = (
                128 + r.below(b.len() / UNIT - 128 / UNIT) * UNIT,
                r.below(b.len() / UNIT) * UNIT,
            );
            if r.below(2) == 0 {
                b.copy_within(from..from + UNIT, to);
            } else {
                b[to + r.below(UNIT)] = r.below(256) as u8;
            }
        }
        i < 4000
    }))
}

#[test]
fn a_superblock_with_a_good_checksum_and_wrong_sizes() {
    const VALUES: [u32; 12] = [
        0,
        1,
        2,
        3,
        8,
        0xff,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX - 7,
        u32::MAX,
    ];
    let seen = campaign(7, |i, b| {
        let (param, v) = (i / VALUES.len(), VALUES[i % VALUES.len()]);
        for copy in 0..2 {
            let at = copy * Superblock::COPY_BYTES;
            let raw = b[at..at + Superblock::COPY_BYTES].try_into().unwrap();
            if let Some(mut s) = Superblock::decode(raw) {
                if param >= s.superblock.params.len() {
                    return false;
                }
                s.superblock.params[param] = v;
                let new = s.superblock.encode(s.sequence);
                b[at..at + Superblock::COPY_BYTES].copy_from_slice(&new);
            }
        }
        true
    });
    assert!(cfg!(miri) || seen[0] > 0);
}

#[test]
fn truncated_or_too_long() {
    for doubt in [false, true] {
        let original = image(WORDS, doubt);
        for len in (0..WORDS).step_by(if cfg!(miri) { 37 } else { 1 }) {
            assert!(!attack(&mut original.clone()[..len]), "{len} words");
        }
        let mut longer = original.clone();
        longer.push(MaybeUninit::new(0));
        assert!(!attack(&mut longer));
    }
}

/// A tag of a transaction to come, beside a version that is no value: an abort of that one must not
/// bring it back.
#[test]
fn a_cell_of_the_future() {
    let half = UNIT as u32 * 4;
    both(campaign(997, |i, b| {
        let (at, tag) = (i / 30 * UNIT, i as u32 % 30);
        let (seq, current) = (tag / 2 + 1, tag % 2);
        let other = at + 8 + (1 - current as usize) * 3;
        if other + 3 > b.len() {
            return false;
        }
        b[at..at + UNIT].copy_from_slice(&(seq << half | current).to_le_bytes()[..UNIT]);
        b[other..other + 3].fill(0xff);
        true
    }))
}

/// Entries in doubt that begin shortly before the end of the heap, or behind it: nothing behind the
/// region is written.
#[test]
fn an_undo_entry_that_reaches_behind_the_region() {
    const FROM: usize = WORDS * 8 - 48;
    let places = (WORDS * 8 + 64 - FROM) / UNIT;
    // The journals are in the first half.
    let seen = campaign(463, |i, b| {
        let (at, first) = (128 + i / places * UNIT, FROM + i % places * UNIT);
        if at >= b.len() / 2 {
            return false;
        }
        b[at..at + UNIT].copy_from_slice(&(first as u32).to_le_bytes()[..UNIT]);
        true
    });
    both(seen);
}

/// The same image without a free block before the last one, which an open would join with that.
fn filled() -> Words {
    let mut m = image(WORDS, false);
    let mut pool = open(&mut m).expect("the image is sound");
    let (_, mut b) = pool.contexts();
    b.tx(|tx, r| {
        let next = r.get_mut(tx)?.take();
        let node = Node {
            v: 8,
            flag: false,
            kind: Kind::Empty,
            next,
        };
        *r.get_mut(tx)? = Some(PBox::new(tx, node)?);
        Ok(())
    })
    .expect("it fits");
    m
}

/// Each unit as if it were a header of a longer block: if the pool opens, its blocks are exactly
/// the heap.
#[test]
fn no_block_reaches_past_the_end() {
    for original in [image(WORDS, false), image(WORDS, true), filled()] {
        let heap = |m: &[MaybeUninit<u64>]| {
            guarded(m, |m| {
                let a = open(m)?.audit().expect("open has checked everything");
                Some(a.used + a.free)
            })
        };
        let sound = heap(&original);
        assert!(sound.is_some());
        let (mut opened, step) = (0, if cfg!(miri) { 331 } else { 1 });
        for at in (128..WORDS * 8).step_by(UNIT * step) {
            for more in [8, 16] {
                let mut m = original.clone();
                let unit = &mut bytes(&mut m)[at..at + UNIT];
                let mut le = [0; 4];
                le[..UNIT].copy_from_slice(unit);
                let longer = u32::from_le_bytes(le).wrapping_add(more);
                unit.copy_from_slice(&longer.to_le_bytes()[..UNIT]);
                let found = heap(&m);
                assert!(found.is_none() || found == sound, "{more} more at {at}");
                opened += usize::from(found.is_some());
            }
        }
        assert!(cfg!(miri) || opened > 0);
    }
}
