//! What the mirror promises without a power cut: content over boots, refusals, a medium that fails,
//! when it saves, and what a save costs at most.

use crate::support::{Counting, Failing, MEMORY, Memory};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Durability, Mirror, MirrorError};
use nvmem::device::{Contract, Medium, Misuse};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{InOrder32, Ram, Region};
use pmem_tx::Pool;

type Nor = RamNor<3, 4096, 4>;
const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};
const TWO: Config = Config {
    segments: 2,
    ..Config::DEFAULT
};

type Values<'m> = Pool<'m, [u32; 16], Ram>;

fn open_pool(region: Region<'_, Ram>) -> Values<'_> {
    Pool::open_with(region, &pmem_tx::Config::SMALL, |_| Ok([0; 16])).unwrap()
}

fn set(pool: &mut Values<'_>, i: usize, n: u32) {
    let set = pool.tx_with((i as u32, n), |tx, values, (i, n)| {
        *values.get_mut(tx)?.get_mut(i as usize).ok_or(tx.abort(1))? = n;
        Ok(())
    });
    set.map_err(|f| f.error).unwrap();
}

fn get(pool: &mut Values<'_>, i: usize) -> u32 {
    let values = pool.tx(|tx, values| Ok(*values.get(tx))).unwrap();
    values[i]
}

/// Opens, runs `f`, and saves if it says so.
fn boot<D: Medium>(
    nv: &mut D,
    config: &Config,
    f: impl FnOnce(&mut Mirror<'_, &mut D>, &mut Values<'_>),
) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let (mut mirror, region) = Mirror::open(nv, all, config, &mut memory).unwrap();
    f(&mut mirror, &mut open_pool(region));
}

fn over_boots<D: Medium>(mut nv: D, config: &Config) {
    let boots = if cfg!(miri) { 2 } else { 40 };
    for n in 0..boots {
        boot(&mut nv, config, |mirror, pool| {
            for i in 0..16 {
                assert_eq!(get(pool, i), if n > 0 { n * 100 + i as u32 } else { 0 });
            }
            for i in 0..16 {
                set(pool, i, (n + 1) * 100 + i as u32);
                mirror.durable(pool).unwrap();
            }
            // This is lost.
            set(pool, 3, 1);
        });
    }
}

#[test]
fn a_pool_is_there_at_the_next_boot() {
    over_boots(RamFram::<4096>::filled(0), &TWO);
    over_boots(Nor::new(), &THREE);
    if cfg!(miri) {
        return;
    }
    over_boots(RamFram::<4096>::filled(0xFF), &Config::DEFAULT);
    over_boots(RamMram::<4096>::filled(0), &TWO);
    over_boots(RamNor::<6, 2048, 2>::new(), &THREE);
    over_boots(RamNor::<6, 2048, 256, 0x00>::new(), &THREE);
    over_boots(RamNor::<8, 2048, 8, 0xFF, false>::new(), &Config::DEFAULT);
}

#[test]
fn reads_of_some_bytes_only() {
    /// Reads begin and end at multiples of 16 bytes.
    struct Aligned(RamFram<4096>);
    impl Medium for Aligned {
        type Error = Misuse;
        const CONTRACT: Contract = Contract {
            read_size: 16,
            ..RamFram::<4096>::CONTRACT
        };
        fn capacity(&self) -> u32 {
            4096
        }
        fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
            assert!(at.is_multiple_of(16) && buf.len().is_multiple_of(16));
            self.0.read(at, buf)
        }
        fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
            self.0.write(at, bytes)
        }
        fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
            Ok(())
        }
    }
    over_boots(Aligned(RamFram::filled(0)), &TWO);
}

/// The README says what a mirror takes in RAM beside region and shadow. Its `Debug` shows sizes.
#[test]
fn what_a_mirror_takes_in_ram() {
    let mirror = size_of::<Mirror<'_, ()>>();
    let (mut nv, mut memory) = (RamFram::<4096>::filled(0), MEMORY);
    let open = Mirror::open::<InOrder32>(&mut nv, 0..4096, &TWO, &mut memory).unwrap();
    let shown = format!("{open:?}");
    assert!(
        shown.contains("image: 416") && shown.contains("len: 416"),
        "{shown}"
    );
    println!("a mirror takes {mirror} bytes beside region, shadow and driver");
    assert!(mirror <= 112, "{mirror}");
}

#[test]
fn a_save_without_a_change_writes_nothing() {
    let mut nv = RamFram::<4096>::filled(0);
    boot(&mut nv, &TWO, |mirror, pool| {
        mirror.durable(pool).unwrap();
        let room = mirror.room();
        mirror.durable(pool).unwrap();
        // A transaction that changes nothing has no commit.
        get(pool, 0);
        mirror.durable(pool).unwrap();
        assert_eq!(mirror.room(), room);
    });
    let written = nv.bytes_written();
    boot(&mut nv, &TWO, |mirror, pool| mirror.durable(pool).unwrap());
    assert_eq!(nv.bytes_written(), written, "FRAM has no unstable words");
}

#[test]
fn a_record_has_the_changed_words() {
    let mut nv = RamFram::<4096>::filled(0);
    boot(&mut nv, &TWO, |mirror, pool| {
        mirror.durable(pool).unwrap();
        let room = mirror.room();
        pool.tx(|tx, values| {
            let v = values.get_mut(tx)?;
            (v[4], v[5]) = (7, 8);
            Ok(())
        })
        .unwrap();
        mirror.durable(pool).unwrap();
        // The two words and the commit word, each with its run; the end and the check.
        assert_eq!(room - mirror.room(), (4 + 8) + (4 + 4) + 8);
    });
}

#[test]
fn the_policy_says_when_a_commit_is_saved() {
    let saved = |durability, commits: u32| {
        let config = Config {
            durability,
            ..THREE
        };
        let mut nv = Nor::new();
        boot(&mut nv, &config, |mirror, pool| {
            mirror.durable(pool).unwrap();
            for n in 1..=commits {
                set(pool, 0, n);
                mirror.committed(pool).unwrap();
            }
        });
        let mut n = 0;
        boot(&mut nv, &config, |_, pool| n = get(pool, 0));
        n
    };
    assert_eq!(saved(Durability::BeforeOutput, 9), 0);
    assert_eq!(saved(Durability::EachCommit, 9), 9);
    assert_eq!(saved(Durability::Every(4), 9), 8);
    assert_eq!(saved(Durability::Every(0), 3), 3);
}

/// A cut may take back what an open finds on flash: a program that saves each commit saves it.
#[test]
fn what_an_open_finds_is_due_on_flash() {
    let config = Config {
        durability: Durability::EachCommit,
        ..THREE
    };
    let mut nv = Nor::new();
    let due = |mirror: &mut Mirror<'_, &mut Nor>, pool: &mut Values<'_>| {
        let before = mirror.room();
        mirror.durable_if_due(pool).unwrap();
        mirror.room() != before
    };
    boot(&mut nv, &config, |mirror, pool| {
        assert!(!due(mirror, pool), "a blank range");
        set(pool, 0, 1);
        mirror.committed(pool).unwrap();
    });
    boot(&mut nv, &config, |mirror, pool| {
        assert!(due(mirror, pool), "found");
        assert!(!due(mirror, pool), "saved");
    });
}

/// What a save that failed should have saved is due at the next commit.
#[test]
fn after_a_failed_save_the_next_commit_is_saved() {
    let config = Config {
        durability: Durability::Every(3),
        ..THREE
    };
    let mut nv = Failing {
        medium: Nor::new(),
        left: None,
    };
    boot(&mut nv, &config, |mirror, pool| {
        mirror.durable(pool).unwrap();
        for n in 1..=4 {
            set(pool, 0, n);
            mirror.medium_mut().left = (n == 3).then_some(0);
            assert_eq!(mirror.committed(pool).is_err(), n == 3);
        }
    });
    boot(&mut nv, &config, |_, pool| assert_eq!(get(pool, 0), 4));
}

#[test]
fn after_make_room_a_save_has_a_bound() {
    const BOUND: nv_mirror::Bound = Config::worst_save(8 * 52, &Nor::CONTRACT);
    assert_eq!(BOUND.bytes, 4 * 105 + 8);
    assert_eq!((BOUND.words, BOUND.total(41)), (107, 107 * 41));
    let mut nv = Nor::new();
    for round in 1..if cfg!(miri) { 3 } else { 60 } {
        let mut left = 0;
        boot(&mut nv, &THREE, |mirror, pool| {
            for n in 0..round {
                set(pool, 1, n);
                mirror.make_room(pool).unwrap();
            }
            left = mirror.room();
            assert!(left >= BOUND.bytes);
            // All that the pool can change.
            pool.tx(|tx, v| {
                *v.get_mut(tx)? = [round; 16];
                Ok(())
            })
            .unwrap();
            mirror.durable(pool).unwrap();
            assert!(left - mirror.room() <= BOUND.bytes && mirror.room() < left);
        });
        boot(&mut nv, &THREE, |_, pool| assert_eq!(get(pool, 15), round));
    }
}

#[test]
fn ranges_and_configurations_are_checked() {
    fn error<D: Medium>(
        nv: &mut D,
        range: core::ops::Range<u32>,
        segments: u8,
        memory: &mut [core::mem::MaybeUninit<u64>],
    ) -> MirrorError<D::Error> {
        let config = Config {
            segments,
            ..Config::DEFAULT
        };
        let open = Mirror::open::<InOrder32>(nv, range, &config, memory);
        open.unwrap_err()
    }
    let mut memory = MEMORY;
    let (mut fram, mut nor) = (RamFram::<4096>::filled(0), Nor::new());
    assert_eq!(
        error(&mut fram, 0..4096, 1, &mut memory),
        MirrorError::BadSegments
    );
    assert_eq!(
        error(&mut nor, 0..12288, 2, &mut memory),
        MirrorError::BadSegments
    );
    assert_eq!(
        error(&mut nor, 0..12288, 9, &mut memory),
        MirrorError::BadSegments
    );
    assert_eq!(
        error(&mut nor, 0..12289, 3, &mut memory),
        MirrorError::BadRange
    );
    assert_eq!(
        error(&mut nor, 4..12288, 3, &mut memory),
        MirrorError::BadRange
    );
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 4096..0;
    assert_eq!(
        error(&mut nor, reversed, 3, &mut memory),
        MirrorError::BadRange
    );
    let needed = 3 * 4096;
    assert_eq!(
        error(&mut nor, 0..4096, 3, &mut memory),
        MirrorError::TooSmall { needed }
    );
    let needed = 2 * (24 + 2 * (4 * 105 + 8));
    assert_eq!(
        error(&mut fram, 0..needed - 4, 2, &mut memory),
        MirrorError::TooSmall { needed }
    );
    assert_eq!(
        error(&mut fram, 0..4096, 2, &mut memory[..1]),
        MirrorError::BadMemory
    );
    assert_eq!(
        error(&mut fram, 0..4096, 2, &mut []),
        MirrorError::BadMemory
    );
    let bytes = THREE.range_bytes(416, &Nor::CONTRACT);
    assert_eq!(bytes, 3 * 4096);
    assert_eq!(TWO.range_bytes(416, &RamFram::<1>::CONTRACT), 2 * 1248);
}

#[test]
fn another_owner_is_refused() {
    let mut nv = RamFram::<4096>::filled(0);
    let (mut memory, mut other): (Memory, Memory) = (MEMORY, MEMORY);
    let (mut mirror, region) =
        Mirror::open::<InOrder32>(&mut nv, 0..4096, &TWO, &mut memory).unwrap();
    let mut stranger = open_pool(Region::new(&mut other));
    assert_eq!(mirror.durable(&mut stranger), Err(MirrorError::OtherRegion));
    // Half of the region is not the region.
    let (mut half, _) = region.split_at(208).map_err(|(e, _)| e).unwrap();
    assert_eq!(mirror.durable(&mut half), Err(MirrorError::OtherRegion));
}

#[test]
fn other_content_is_refused_and_kept() {
    let open = |nv: &mut RamFram<4096>, config: &Config| {
        let mut memory = MEMORY;
        let open = Mirror::open::<InOrder32>(nv, 0..4096, config, &mut memory);
        open.map(|_| ()).err()
    };
    let mut nv = RamFram::<4096>::filled(0);
    nv.write(100, b"their settings").unwrap();
    let before = nv.clone();
    assert_eq!(open(&mut nv, &TWO), Some(MirrorError::Foreign));
    let mut nv = RamFram::<4096>::filled(0);
    boot(&mut nv, &TWO, |mirror, pool| mirror.durable(pool).unwrap());
    let Some(MirrorError::Layout(e)) = open(&mut nv, &Config::DEFAULT) else {
        panic!("another number of segments");
    };
    assert!(e.to_string().contains("MIRR"), "{e}");
    // Another version.
    let mut newer = nv.clone();
    newer.bytes_mut()[2048 + 3] = b'2';
    let crc = nvmem::crc::crc32(&newer.bytes()[2048..2068]);
    newer.bytes_mut()[2068..2072].copy_from_slice(&crc.to_le_bytes());
    let Some(MirrorError::Layout(e)) = open(&mut newer, &TWO) else {
        panic!("another version");
    };
    assert_eq!((e.stored.version, e.expected.version), (2, 1));
    // Damage in the base image.
    let mut rotten = nv.clone();
    rotten.bytes_mut()[2048 + 60] ^= 1;
    assert_eq!(open(&mut rotten, &TWO), Some(MirrorError::Damaged));
    assert_eq!(before.bytes()[100..114], *b"their settings");
    // By name it is given up.
    let mut memory = MEMORY;
    let (mut mirror, region) = Mirror::format(&mut rotten, 0..4096, &TWO, &mut memory).unwrap();
    let mut pool = open_pool(region);
    set(&mut pool, 2, 5);
    mirror.durable(&mut pool).unwrap();
    boot(&mut rotten, &TWO, |_, pool| assert_eq!(get(pool, 2), 5));
}

/// Opens or formats, and says why not. `Ok` is whether the range was formatted.
fn open_or_format(nv: &mut RamFram<8192>, config: &Config) -> Result<bool, MirrorError<Misuse>> {
    let before = nv.clone();
    let mut memory = MEMORY;
    let opened = Mirror::open_or_format::<InOrder32>(&mut *nv, 0..8192, config, &mut memory);
    opened.map(|_| ())?;
    Ok(nv.bytes() != before.bytes())
}

fn saved(nv: &mut RamFram<8192>, config: &Config) {
    boot(nv, config, |mirror, pool| {
        set(pool, 0, 7);
        mirror.durable(pool).unwrap();
    });
}

#[test]
fn what_was_never_formatted_is_formatted_once() {
    let mut nv = RamFram::<8192>::filled(0xFF);
    assert_eq!(open_or_format(&mut nv, &TWO), Ok(false), "blank");
    for byte in [b'R', 7] {
        let mut nv = RamFram::<8192>::filled(byte);
        assert_eq!(open_or_format(&mut nv, &TWO), Ok(true));
        assert!(nv.bytes().iter().all(|b| *b == 0));
        saved(&mut nv, &TWO);
        assert_eq!(open_or_format(&mut nv, &TWO), Ok(false));
        boot(&mut nv, &TWO, |_, pool| assert_eq!(get(pool, 0), 7));
    }
    // The smallest range there is.
    let (mut nv, mut memory) = (RamFram::<128>::filled(7), [MaybeUninit::new(0); 2]);
    Mirror::open_or_format::<InOrder32>(&mut nv, 0..128, &TWO, &mut memory).unwrap();
    let mut nv = Nor::new();
    nv.bytes_mut().fill(7);
    let mut memory = MEMORY;
    let opened = Mirror::open_or_format::<InOrder32>(&mut nv, 0..12288, &THREE, &mut memory);
    let (mut mirror, region) = opened.unwrap();
    let mut pool = open_pool(region);
    set(&mut pool, 0, 8);
    mirror.durable(&mut pool).unwrap();
    boot(&mut nv, &THREE, |_, pool| assert_eq!(get(pool, 0), 8));
}

/// A log that this program cannot open is never given up.
#[test]
fn a_log_is_never_formatted() {
    let refused = |nv: &RamFram<8192>, config: &Config| {
        let mut nv = nv.clone();
        let before = nv.clone();
        let e = open_or_format(&mut nv, config).expect_err("is refused");
        assert_eq!(nv.bytes(), before.bytes(), "{e}");
        e
    };
    // Another number of segments. Its only header may lie where no segment of this one begins.
    for theirs in 2..=8 {
        let config = |segments| Config {
            segments,
            ..Config::DEFAULT
        };
        let mut nv = RamFram::<8192>::filled(0);
        saved(&mut nv, &config(theirs));
        for ours in (2..=8).filter(|n| *n != theirs) {
            let e = refused(&nv, &config(ours));
            assert!(
                matches!(e, MirrorError::Layout(_) | MirrorError::Foreign),
                "{theirs} {ours} {e}"
            );
        }
    }
    let mut nv = RamFram::<8192>::filled(0);
    saved(&mut nv, &TWO);
    // Another version.
    let mut newer = nv.clone();
    newer.bytes_mut()[4096 + 3] = b'2';
    let crc = nvmem::crc::crc32(&newer.bytes()[4096..4116]);
    newer.bytes_mut()[4116..4120].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(refused(&newer, &TWO), MirrorError::Layout(_)));
    // Damage in the base image, and in all headers.
    let mut rotten = nv.clone();
    rotten.bytes_mut()[4096 + 60] ^= 1;
    assert_eq!(refused(&rotten, &TWO), MirrorError::Damaged);
    let mut full = nv;
    while full.bytes()[0] == 0 {
        boot(&mut full, &TWO, |mirror, pool| {
            let n = get(pool, 1);
            set(pool, 1, n + 1);
            mirror.durable(pool).unwrap();
        });
    }
    for header in [0, 4096] {
        full.bytes_mut()[header + 4] ^= 8;
    }
    assert_eq!(refused(&full, &TWO), MirrorError::Foreign);
    // A pool on mapped memory.
    let mut other = RamFram::<8192>::filled(7);
    other.write(0, b"RLM1").unwrap();
    assert_eq!(refused(&other, &TWO), MirrorError::Foreign);
}

/// The log is read once.
#[test]
fn open_or_format_reads_what_open_reads() {
    let mut medium = RamFram::<8192>::filled(0);
    saved(&mut medium, &TWO);
    let mut nv = Counting {
        medium,
        written: 0,
        read: 0,
        erases: 0,
    };
    let mut memory = MEMORY;
    Mirror::open::<InOrder32>(&mut nv, 0..8192, &TWO, &mut memory).unwrap();
    let read = core::mem::take(&mut nv.read);
    Mirror::open_or_format::<InOrder32>(&mut nv, 0..8192, &TWO, &mut memory).unwrap();
    assert_eq!((nv.read, nv.written), (read, 0));
}

/// Four boots. Each saves what it finds, and then one more. Returns what the first one has found.
fn four_boots<D: Medium>(nv: &mut D, config: &Config) -> u32 {
    let mut first = None;
    for i in 0..4 {
        boot(nv, config, |mirror, pool| {
            let n = get(pool, 0);
            assert_eq!(n, *first.get_or_insert(n) + i);
            mirror.durable(pool).unwrap();
            set(pool, 0, n + 1);
            mirror.durable(pool).unwrap();
        });
    }
    first.unwrap()
}

/// A format fails at each of its operations. At the next boot the range holds the log, or nothing;
/// and then no record of the log ever comes back, also if the program saves the same again.
fn format_fails<D: Medium + Clone>(blank: D, config: &Config) {
    let all = 0..blank.capacity();
    let mut nv = blank;
    assert_eq!(four_boots(&mut nv, config), 0);
    for left in 0.. {
        let mut failing = Failing {
            medium: nv.clone(),
            left: Some(left),
        };
        let mut memory = MEMORY;
        let format =
            Mirror::format::<InOrder32>(&mut failing, all.clone(), config, &mut memory).is_ok();
        let mut medium = failing.medium;
        let found = four_boots(&mut medium, config);
        assert!(found == 0 || found == 4 && !format);
        if format {
            break;
        }
        assert!(left < 100);
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_format_that_fails_brings_nothing_back() {
    format_fails(RamFram::<4096>::filled(0), &TWO);
    format_fails(RamMram::<4096>::filled(0), &TWO);
    format_fails(Nor::new(), &THREE);
}

/// The header of the only segment has rotted, and the range reads as never saved. The program saves
/// the same again, and no record of before fits it.
#[test]
fn records_without_a_header_do_not_come_back() {
    let mut nv = RamFram::<4096>::filled(0);
    let mut memory = MEMORY;
    let (mut mirror, region) = Mirror::open(&mut nv, 0..4096, &TWO, &mut memory).unwrap();
    let mut pool = open_pool(region);
    for n in 0..3 {
        set(&mut pool, 0, n);
        mirror.durable(&mut pool).unwrap();
    }
    nv.bytes_mut()[2048] ^= 1;
    boot(&mut nv, &TWO, |mirror, pool| {
        set(pool, 0, 0);
        mirror.durable(pool).unwrap();
    });
    boot(&mut nv, &TWO, |_, pool| assert_eq!(get(pool, 0), 0));
}

/// The first save writes the last segment and may be cut, so what lies there decides nothing. What
/// it cannot have written does, where nothing is erased.
#[test]
fn other_data_in_the_last_segment() {
    let at = |offset: usize| {
        let mut nv = RamFram::<4096>::filled(0xFF);
        nv.bytes_mut()[offset] = 1;
        let mut memory = MEMORY;
        let open = Mirror::open::<InOrder32>(&mut nv, 0..4096, &TWO, &mut memory);
        open.err()
    };
    // Header, and the longest base image.
    let written = 24 + (4 * 105 + 8);
    assert_eq!(at(2047), Some(MirrorError::Foreign));
    assert_eq!(at(2048), None);
    assert_eq!(at(2048 + written - 1), None);
    assert_eq!(at(2048 + written), Some(MirrorError::Foreign));
    assert_eq!(at(4095), Some(MirrorError::Foreign));
    let mut nv = Nor::new();
    nv.bytes_mut()[12287] = 1;
    boot(&mut nv, &THREE, |mirror, pool| {
        mirror.durable(pool).unwrap()
    });
}

/// The only segment is damaged. If it can be the one that the first save was writing, nothing is
/// lost; otherwise something is.
#[test]
fn damage_is_not_a_blank_range() {
    let mut nv = Nor::new();
    for number in 1..=4 {
        boot(&mut nv, &THREE, |mirror, pool| {
            set(pool, 0, number);
            mirror.durable(pool).unwrap();
        });
        if number != 1 && number != 4 {
            continue;
        }
        // Number 4 lies where number 1 did.
        let mut rotten = nv.clone();
        rotten.erase(0, 8192).unwrap();
        assert_eq!(rotten.bytes()[8192 + 4], number as u8);
        boot(&mut rotten, &THREE, |_, pool| {
            assert_eq!(get(pool, 0), number)
        });
        rotten.bytes_mut()[8192 + 60] ^= 1;
        let mut memory = MEMORY;
        let open = Mirror::open::<InOrder32>(&mut rotten, 0..12288, &THREE, &mut memory);
        let expected = (number == 4).then_some(MirrorError::Damaged);
        assert_eq!(open.err(), expected);
    }
}

/// Every operation of the medium fails once. What was durable stays, and the next save works.
fn failing<D: Medium + Clone>(nv: D, config: &Config) {
    let mut fails = 0;
    for at in 0..400 {
        let mut nv = Failing {
            medium: nv.clone(),
            left: None,
        };
        boot(&mut nv, config, |mirror, pool| {
            set(pool, 0, 1);
            mirror.durable(pool).unwrap();
        });
        let mut last = 1;
        boot(&mut nv, config, |mirror, pool| {
            assert_eq!(get(pool, 0), 1);
            mirror.durable(pool).unwrap();
        });
        let mut failed = false;
        let mut memory = MEMORY;
        let all = 0..nv.capacity();
        nv.left = Some(at);
        if let Ok((mut mirror, region)) = Mirror::open(&mut nv, all, config, &mut memory) {
            let mut pool = open_pool(region);
            for n in 2..20 {
                set(&mut pool, 0, n);
                match mirror.durable(&mut pool) {
                    Ok(()) => last = n,
                    Err(MirrorError::Medium(_)) => {
                        assert!(!failed, "one failure");
                        failed = true;
                    }
                    Err(_) => panic!("only the medium fails"),
                }
            }
            assert!(last == 19 || failed && last == 18);
        } else {
            failed = true;
        }
        nv.left = None;
        // A save that has failed may be there all the same.
        boot(&mut nv, config, |_, pool| {
            let n = get(pool, 0);
            assert!(n == last || failed && last == 18 && n == 19, "{n}");
        });
        fails += u32::from(failed);
        if !failed {
            break;
        }
    }
    assert!(fails > 30, "{fails}");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of saves")]
fn a_medium_that_fails_loses_nothing() {
    failing(RamFram::<4096>::filled(0), &TWO);
    failing(RamMram::<4096>::filled(0), &TWO);
    failing(RamNor::<3, 1024, 4>::new(), &THREE);
}

/// Two saves in a row fail, each at each operation. Then the power is cut.
fn failing_twice<D: Medium + Clone>(blank: D, config: &Config) {
    // The first one that fails begins the range, appends a record, or finds no room.
    for (begun, full) in [(false, false), (true, false), (true, true)] {
        let mut fails = 0;
        'first: for first in 0.. {
            for second in 0.. {
                let mut nv = Failing {
                    medium: blank.clone(),
                    left: None,
                };
                let all = 0..nv.capacity();
                let mut memory = MEMORY;
                let open = Mirror::open(&mut nv, all.clone(), config, &mut memory);
                let (mut mirror, region) = open.unwrap();
                let mut pool = open_pool(region);
                let mut before = 0;
                let mut record = u32::MAX;
                while begun && before < 2 || full && mirror.room() >= record {
                    let room = mirror.room();
                    before += 1;
                    set(&mut pool, 0, before);
                    mirror.durable(&mut pool).unwrap();
                    record = room.saturating_sub(mirror.room());
                }
                set(&mut pool, 0, before + 1);
                mirror.medium_mut().left = Some(first);
                if mirror.durable(&mut pool).is_ok() {
                    break 'first;
                }
                set(&mut pool, 0, before + 2);
                mirror.medium_mut().left = Some(second);
                let whole = mirror.durable(&mut pool).is_ok();
                mirror.medium_mut().left = None;
                boot(&mut nv, config, |_, pool| {
                    let n = get(pool, 0);
                    let least = if whole { before + 2 } else { before };
                    assert!(n >= least && n <= before + 2, "{n}");
                });
                if whole {
                    break;
                }
                fails += 1;
            }
        }
        assert!(fails > 4, "{fails}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of saves")]
fn two_saves_that_fail_lose_nothing() {
    failing_twice(RamFram::<4096>::filled(0), &TWO);
    failing_twice(RamFram::<4096>::filled(0xFF), &TWO);
    failing_twice(RamMram::<4096>::filled(0), &TWO);
    failing_twice(RamNor::<3, 1024, 4>::new(), &THREE);
}

/// What is durable when the failure is not followed by another save.
#[test]
#[cfg_attr(miri, ignore = "thousands of saves")]
fn a_failed_save_keeps_the_one_before() {
    for at in 0..200 {
        let mut nv = Failing {
            medium: RamNor::<3, 1024, 4>::new(),
            left: None,
        };
        boot(&mut nv, &THREE, |mirror, pool| {
            set(pool, 0, 1);
            mirror.durable(pool).unwrap();
            mirror.medium_mut().left = Some(at);
            let mut n = 1;
            while n < 60 {
                set(pool, 0, n + 1);
                if mirror.durable(pool).is_err() {
                    break;
                }
                n += 1;
            }
            mirror.medium_mut().left = None;
            LAST.set(n);
        });
        boot(&mut nv, &THREE, |_, pool| {
            let found = get(pool, 0);
            assert!(found == LAST.get() || found == LAST.get() + 1, "{found}");
        });
    }
}

std::thread_local! {
    static LAST: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A journal that was saved because a transaction was open does not come back later.
#[test]
fn an_open_transaction_is_saved_with_its_journal() {
    let small = pmem_tx::Config {
        seq_bits: 3,
        ..pmem_tx::Config::SMALL
    };
    let mut nv = RamFram::<4096>::filled(0);
    fn open<'m>(region: Region<'m, Ram>, small: &pmem_tx::Config) -> Values<'m> {
        Pool::open_with(region, small, |_| Ok([0; 16])).unwrap()
    }
    let mut memory = MEMORY;
    let (mut mirror, region) = Mirror::open(&mut nv, 0..4096, &TWO, &mut memory).unwrap();
    let mut pool = open(region, &small);
    mirror.durable(&mut pool).unwrap();
    // Prepared by a caller that owns the commit word, and never committed: the token is given up.
    let region = pool.close();
    let blank = |_: &pmem_tx::Tx<'_, Ram>| Ok([0; 16]);
    let pool = Pool::<[u32; 16], Ram>::open_resolved(region, &small, |_| 0, blank);
    let mut pool = pool.unwrap();
    let mut context = pool.context();
    let prepared = context.prepare::<(), (), _>((), |tx, v, ()| {
        *v.get_mut(tx)? = [9; 16];
        Ok(())
    });
    core::mem::forget(prepared.map_err(|f| f.error).unwrap());
    mirror.durable(&mut pool).unwrap();
    for n in 0..20 {
        let mut memory = MEMORY;
        let (mut mirror, region) = Mirror::open(&mut nv, 0..4096, &TWO, &mut memory).unwrap();
        let mut pool = open(region, &small);
        assert_eq!(get(&mut pool, 3), n);
        assert_eq!(get(&mut pool, 4), 0, "it was not committed");
        set(&mut pool, 3, n + 1);
        mirror.durable(&mut pool).unwrap();
    }
}
